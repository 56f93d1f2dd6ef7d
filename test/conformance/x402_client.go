// The Go client of x402 buys agents on the public listener: x402 v2 and v1 over HTTP, and MCP tools.
//
//	git clone -b go/v2.9.0 https://github.com/coinbase/x402
//	cd x402/go && go run <path of Stoa>/test/conformance/x402_client.go
//
// Starts a chain, a facilitator and a seller by itself. Exits with 0 if all holds.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
	x402 "github.com/x402-foundation/x402/go"
	x402http "github.com/x402-foundation/x402/go/http"
	x402mcp "github.com/x402-foundation/x402/go/mcp"
	evm "github.com/x402-foundation/x402/go/mechanisms/evm/exact/client"
	evmv1 "github.com/x402-foundation/x402/go/mechanisms/evm/exact/v1/client"
	signers "github.com/x402-foundation/x402/go/signers/evm"
)

const price = 20_000

type account struct{ Address, Key string }
type stand struct {
	PublicURL     string `json:"public_url"`
	RPCURL        string `json:"rpc_url"`
	USDC          string
	Agents        map[string]string
	Buyer, Seller account
	last          [2]int64
}

func check(ok bool, what string, said ...any) {
	if !ok {
		log.Panicln(append([]any{what}, said...)...)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "failed:", err)
	return value
}

// Starts stand.ts. It ends with this program, or with `end`.
func start() (*stand, func()) {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..")
	node := exec.Command(filepath.Join(root, "node_modules/.bin/node"), filepath.Join(root, "test/conformance/stand.ts"))
	node.Stderr = os.Stderr
	input, output := must(node.StdinPipe()), must(node.StdoutPipe())
	check(node.Start() == nil, "node does not start")
	one := &stand{}
	line := must(bufio.NewReader(output).ReadBytes('\n'))
	check(json.Unmarshal(line, one) == nil, "the stand has said", string(line))
	one.last = one.read()
	return one, func() {
		input.Close()
		node.Wait()
	}
}

func (s *stand) balance(address string) int64 {
	data := "0x70a08231" + strings.Repeat("0", 24) + strings.ToLower(address[2:])
	call := map[string]any{"to": s.USDC, "data": data}
	body := must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": []any{call, "latest"}}))
	answer := must(http.Post(s.RPCURL, "application/json", bytes.NewReader(body)))
	defer answer.Body.Close()
	var said struct{ Result string }
	check(json.NewDecoder(answer.Body).Decode(&said) == nil, "the chain does not answer")
	amount, ok := new(big.Int).SetString(said.Result[2:], 16)
	check(ok, "no amount:", said.Result)
	return amount.Int64()
}

func (s *stand) read() [2]int64 {
	return [2]int64{s.balance(s.Buyer.Address), s.balance(s.Seller.Address)}
}

// Fails unless this much USDC went from the buyer to the seller since the last call, in atomic units.
func (s *stand) moved(amount int64) {
	before, now := s.last, s.read()
	s.last = now
	check(before[0]-now[0] == amount && now[1]-before[1] == amount, "moved", before, now, "not", amount)
}

// Keeps the last request. A client of v1 does not read the header of v2.
type recorded struct {
	isV1 bool
	sent *http.Request
}

func (r *recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = request
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err == nil && r.isV1 {
		answer.Header.Del("Payment-Required")
	}
	return answer, err
}

type answer struct {
	status int
	body   string
	header http.Header
}

func post(client *http.Client, url, contentType, body string, headers map[string]string) answer {
	request := must(http.NewRequest("POST", url, strings.NewReader(body)))
	request.Header.Set("Content-Type", contentType)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response := must(client.Do(request))
	defer response.Body.Close()
	return answer{response.StatusCode, string(must(io.ReadAll(response.Body))), response.Header}
}

func (a answer) is(status int, parts ...string) {
	check(a.status == status, "status", a.status, "not", status, a.body)
	for _, part := range parts {
		check(strings.Contains(a.body, part), "lacks", part, "in", a.body)
	}
}

func buyOverHTTP(s *stand, client *x402.X402Client, isV1 bool) {
	version, sentAs := 2, "PAYMENT-SIGNATURE"
	if isV1 {
		version, sentAs = 1, "X-PAYMENT"
	}
	network := &recorded{isV1: isV1}
	paying := x402http.Newx402HTTPClient(client)
	pay := x402http.WrapHTTPClientWithPayment(&http.Client{Transport: network}, paying)
	url := s.PublicURL + "/x402/" + s.Agents["echo"]
	task := `{"task":"hello ünïcode"}`

	bought := post(pay, url, "application/json", task, nil)
	bought.is(200, `{"result":"hello ünïcode"}`)
	s.moved(price)
	headers := map[string]string{}
	for name := range bought.header {
		headers[name] = bought.header.Get(name)
	}
	settled := must(paying.GetPaymentSettleResponse(headers))
	check(settled.Success && len(settled.Transaction) == 66 && settled.Payer == s.Buyer.Address, "not settled", settled)

	payment := map[string]string{sentAs: network.sent.Header.Get(sentAs)}
	check(payment[sentAs] != "", "no header", sentAs)
	plain := &http.Client{}
	post(plain, url, "application/json", task, payment).is(200, `{"result":"hello ünïcode"}`)
	post(plain, url, "application/json", `{"task":"another"}`, payment).is(409, "PAYMENT_USED")
	s.moved(0)
	post(pay, url, "text/plain", "as text", nil).is(200, "as text")
	s.moved(price)
	post(pay, url+"/stream", "application/json", `{"task":"streamed"}`, nil).is(200, "event: result", "streamed")
	s.moved(price)
	post(pay, s.PublicURL+"/x402/"+s.Agents["broken"], "application/json", task, nil).is(502, "AGENT_FAILED", `"none"`)
	post(pay, s.PublicURL+"/x402/"+s.Agents["free"], "application/json", `{"task":"free"}`, nil).is(200, "free")
	s.moved(0)
	fmt.Printf("HTTP, x402 v%d: JSON, resent, used for another task, text, stream, failed agent, free agent: passed\n", version)
}

func buyOverMCP(s *stand, client *x402.X402Client) {
	ctx := context.Background()
	official := mcpsdk.NewClient(&mcpsdk.Implementation{Name: "test", Version: "1"}, nil)
	session := must(official.Connect(ctx, &mcpsdk.StreamableClientTransport{Endpoint: s.PublicURL + "/mcp"}, nil))
	defer session.Close()
	names := map[string]string{}
	for _, tool := range must(session.ListTools(ctx, nil)).Tools {
		names[strings.Split(tool.Description, ",")[0]] = tool.Name
	}
	paying := x402mcp.NewX402MCPClient(session, client, x402mcp.Options{AutoPayment: x402mcp.BoolPtr(true)})
	bought := must(paying.CallTool(ctx, names["echo"], map[string]any{"task": "over MCP"}))
	check(bought.PaymentMade && !bought.IsError && bought.Content[0].Text == "over MCP", "not bought", bought)
	check(bought.PaymentResponse != nil && bought.PaymentResponse.Success, "no receipt", bought.PaymentResponse)
	s.moved(price)
	failed := must(paying.CallTool(ctx, names["broken"], map[string]any{"task": "x"}))
	check(failed.IsError, "no error", failed)
	free := must(paying.CallTool(ctx, names["free"], map[string]any{"task": "free"}))
	check(!free.PaymentMade && free.Content[0].Text == "free", "free agent:", free)
	s.moved(0)
	fmt.Println("MCP: paid tool, failed tool, free tool: passed")
}

func main() {
	s, end := start()
	defer end()
	signer := must(signers.NewClientSignerFromPrivateKey(s.Buyer.Key))
	client := x402.Newx402Client().Register("eip155:*", evm.NewExactEvmScheme(signer, nil))
	old := x402.Newx402Client().RegisterV1("base-sepolia", evmv1.NewExactEvmSchemeV1(signer))
	buyOverHTTP(s, client, false)
	buyOverHTTP(s, old, true)
	buyOverMCP(s, client)
}
