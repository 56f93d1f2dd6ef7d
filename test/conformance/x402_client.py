"""The x402 package of PyPI buys agents on the public listener: x402 v2 and v1, over httpx and requests, and MCP tools.

    pip install "x402[evm,httpx,requests]==2.25.0" mcp==1.30.0
    python test/conformance/x402_client.py

Starts a chain, a facilitator and a seller by itself. Exits with 0 if all holds.
"""
import asyncio
import base64
import json

import httpx
from eth_account import Account
from eth_account.messages import encode_typed_data
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from stand import Money, standing
from x402 import x402Client, x402ClientSync
from x402.http import decode_payment_response_header
from x402.http.clients import x402_httpx_transport, x402_requests
from x402.http.clients.httpx import PaymentError
from x402.mcp import x402MCPSession
from x402.mechanisms.evm.exact import register_exact_evm_client

PRICE = 20_000
RECEIPT = [
    {"name": "version", "type": "uint256"},
    {"name": "network", "type": "string"},
    {"name": "resourceUrl", "type": "string"},
    {"name": "payer", "type": "string"},
    {"name": "issuedAt", "type": "uint256"},
    {"name": "transaction", "type": "string"},
]


class Recorded(httpx.AsyncHTTPTransport):
    """Keeps what is sent. A client of v1 does not read the header of v2."""

    def __init__(self, is_v1=False):
        super().__init__()
        self.is_v1 = is_v1
        self.sent = []

    async def handle_async_request(self, request):
        self.sent.append(request)
        response = await super().handle_async_request(request)
        if self.is_v1:
            response.headers.pop("payment-required", None)
        return response


def signer_of(receipt):
    """Who has signed a receipt of x402's extension offer-receipt."""
    domain = {"name": "x402 receipt", "version": "1", "chainId": 1}
    typed = encode_typed_data(domain, {"Receipt": RECEIPT}, receipt["payload"])
    return Account.recover_message(typed, signature=receipt["signature"])


def check_settled(stand, settled, url):
    assert settled.success and settled.payer == stand.buyer.address, settled
    assert settled.transaction.startswith("0x") and len(settled.transaction) == 66, settled
    receipt = settled.extensions["offer-receipt"]["info"]["receipt"]
    assert receipt["payload"]["resourceUrl"] == url, receipt
    assert receipt["payload"]["transaction"] == settled.transaction, receipt
    assert signer_of(receipt) == stand.seller.address, receipt


async def buy_over_httpx(stand, account, money):
    url = f"{stand.public_url}/x402/{stand.agents.echo}"
    for is_v1, sent_as, answered_as in [
        (False, "payment-signature", "payment-response"),
        (True, "x-payment", "x-payment-response"),
    ]:
        network = Recorded(is_v1)
        client = register_exact_evm_client(x402Client(), account)
        async with httpx.AsyncClient(transport=x402_httpx_transport(client, network), timeout=60) as http:
            answer = await http.post(url, json={"task": "hello ünïcode"})
            assert (answer.status_code, answer.json()) == (200, {"result": "hello ünïcode"}), answer.text
            assert money.moved() == (PRICE, PRICE)
            if is_v1:
                said = json.loads(base64.b64decode(answer.headers[answered_as]))
                assert said["success"] and said["network"] == "base-sepolia", said
            else:
                check_settled(stand, decode_payment_response_header(answer.headers[answered_as]), url)
            paid = network.sent[-1]
            assert sent_as in paid.headers, paid.headers
            text = await http.post(url, content="as text", headers={"content-type": "text/plain"})
            assert (text.status_code, text.text) == (200, "as text"), text.text
            assert money.moved() == (PRICE, PRICE)
        payment = {sent_as: paid.headers[sent_as]}
        async with httpx.AsyncClient(timeout=60) as http:
            again = await http.post(url, content=paid.content, headers={**payment, "content-type": "application/json"})
            assert (again.status_code, again.json()) == (200, {"result": "hello ünïcode"}), again.text
            other = await http.post(url, json={"task": "another"}, headers=payment)
            assert (other.status_code, other.json()["error"]["code"]) == (409, "PAYMENT_USED"), other.text
        assert money.moved() == (0, 0)
        print(f"httpx, x402 v{1 if is_v1 else 2}: JSON, text, resent, used for another task: passed")


async def refuse_over_httpx(stand, account, money):
    client = register_exact_evm_client(x402Client(), account)
    async with httpx.AsyncClient(transport=x402_httpx_transport(client), timeout=60) as http:
        free = await http.post(f"{stand.public_url}/x402/{stand.agents.free}", json={"task": "free"})
        assert (free.status_code, free.json()) == (200, {"result": "free"}), free.text
        broken = await http.post(f"{stand.public_url}/x402/{stand.agents.broken}", json={"task": "x"})
        error = broken.json()["error"]
        assert (broken.status_code, error["code"], error["settlement"]) == (502, "AGENT_FAILED", "none"), error
        bad = await http.post(f"{stand.public_url}/x402/{stand.agents.echo}", json={"task": 7})
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, "INVALID_REQUEST"), bad.text
        try:
            await http.post(f"{stand.public_url}/x402/{stand.agents.dear}", json={"task": "x"})
            raise SystemExit("the package has paid more than its own limit")
        except PaymentError as error:
            assert "max_amount_per_payment" in str(error), error
    assert money.moved() == (0, 0)
    print("free agent, failed agent, bad task, price above the limit of the package: passed, nothing was charged")


async def stream_over_httpx(stand, account, money):
    url = f"{stand.public_url}/x402/{stand.agents.echo}/stream"
    client = register_exact_evm_client(x402Client(), account)
    async with httpx.AsyncClient(transport=x402_httpx_transport(client), timeout=60) as http:
        async with http.stream("POST", url, json={"task": "streamed"}) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert decode_payment_response_header(answer.headers["payment-response"]).success
            lines = [line async for line in answer.aiter_lines()]
    data = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
    assert data[-1]["result"] == "streamed", lines
    assert money.moved() == (PRICE, PRICE)
    print("stream, paid first: passed")


def buy_over_requests(stand, account, money):
    url = f"{stand.public_url}/x402/{stand.agents.echo}"
    session = x402_requests(register_exact_evm_client(x402ClientSync(), account))
    answer = session.post(url, json={"task": "by requests"}, timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"result": "by requests"}), answer.text
    check_settled(stand, decode_payment_response_header(answer.headers["payment-response"]), url)
    assert money.moved() == (PRICE, PRICE)
    print("requests: passed")


async def buy_over_mcp(stand, account, money):
    client = register_exact_evm_client(x402Client(), account)
    async with streamable_http_client(f"{stand.public_url}/mcp") as (read, write, *_):
        async with ClientSession(read, write) as session:
            paying = x402MCPSession(session, client)
            await paying.initialize()
            tools = {tool.description.split(",")[0]: tool.name for tool in (await paying.list_tools()).tools}
            answer = await paying.call_tool(tools["echo"], {"task": "over MCP"})
            assert answer.payment_made and not answer.is_error, answer
            assert answer.content[0].text == "over MCP", answer
            assert answer.payment_response.success, answer
            assert money.moved() == (PRICE, PRICE)
            failed = await paying.call_tool(tools["broken"], {"task": "x"})
            assert failed.is_error, failed
            free = await paying.call_tool(tools["free"], {"task": "free"})
            assert not free.payment_made and free.content[0].text == "free", free
    assert money.moved() == (0, 0)
    print("MCP: paid tool, failed tool, free tool: passed")


async def main():
    with standing() as stand:
        account, money = Account.from_key(stand.buyer.key), Money(stand)
        await buy_over_httpx(stand, account, money)
        await refuse_over_httpx(stand, account, money)
        await stream_over_httpx(stand, account, money)
        await asyncio.to_thread(buy_over_requests, stand, account, money)
        await buy_over_mcp(stand, account, money)


asyncio.run(main())
