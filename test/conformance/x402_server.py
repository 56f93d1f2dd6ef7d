"""Servers that sell with the x402 package of PyPI, with FastAPI and with Flask: `stoa buy` buys from each.

    pip install "x402[evm,fastapi,flask]==2.25.0" uvicorn==0.54.0
    python test/conformance/x402_server.py

Starts a chain, a facilitator, a buyer and the servers by itself. Exits with 0 if all holds.
"""
import json
import logging
import socket
import subprocess
import threading
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from flask import Flask, jsonify, request
from stand import NODE, ROOT, Money, standing
from werkzeug.serving import make_server
from x402 import x402ResourceServer, x402ResourceServerSync
from x402.extensions.bazaar import OutputConfig, declare_discovery_extension
from x402.http import FacilitatorConfig, HTTPFacilitatorClient, HTTPFacilitatorClientSync, PaymentOption, RouteConfig
from x402.http.middleware.fastapi import PaymentMiddlewareASGI
from x402.http.middleware.flask import payment_middleware
from x402.mechanisms.evm.exact import register_exact_evm_server

NETWORK = "eip155:84532"
PRICE = 10_000


def routes(stand):
    asked = PaymentOption(scheme="exact", pay_to=stand.seller.address, price="$0.01", network=NETWORK)
    schema = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
    declared = declare_discovery_extension(
        input={"prompt": "…"}, input_schema=schema, body_type="json", output=OutputConfig(example={"said": "…"})
    )
    return {
        "POST /run": RouteConfig(accepts=asked, description="Says it again", extensions=declared),
        "GET /weather": RouteConfig(accepts=asked),
        "POST /broken": RouteConfig(accepts=asked),
    }


@contextmanager
def fastapi_seller(stand, listening, seen):
    server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=stand.facilitator_url)))
    app = FastAPI()
    app.add_middleware(PaymentMiddlewareASGI, routes=routes(stand), server=register_exact_evm_server(server))

    @app.post("/run")
    async def run(asked: Request):
        seen.append(await asked.json())
        return {"said": seen[-1]["prompt"]}

    @app.get("/weather")
    async def weather(city: str):
        return {"city": city}

    @app.post("/broken")
    async def broken(asked: Request):
        seen.append(asked.headers["payment-signature"])
        return JSONResponse({"error": "always"}, 500)

    serving = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield
    finally:
        serving.should_exit = True
        thread.join()


@contextmanager
def flask_seller(stand, listening, seen):
    server = x402ResourceServerSync(HTTPFacilitatorClientSync(FacilitatorConfig(url=stand.facilitator_url)))
    app = Flask("seller")
    payment_middleware(app, routes(stand), register_exact_evm_server(server))

    @app.post("/run")
    def run():
        seen.append(request.get_json())
        return jsonify(said=seen[-1]["prompt"])

    @app.get("/weather")
    def weather():
        return jsonify(city=request.args["city"])

    @app.post("/broken")
    def broken():
        seen.append(request.headers["payment-signature"])
        return jsonify(error="always"), 500

    serving = make_server("127.0.0.1", 0, app, threaded=True, fd=listening.fileno())
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    try:
        yield
    finally:
        serving.shutdown()
        thread.join()


def stoa(stand, *words):
    command = [NODE, ROOT / "bin" / "stoa.js", *words, "--data-dir", stand.buyer.data_dir, "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def bought(stand, *words):
    done = stoa(stand, "buy", *words, "--await-settlement")
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def buy_from(stand, origin, seen, money):
    result = bought(stand, f"{origin}/run", "--task", "hello ünïcode", "--max-price", "0.02")
    assert json.loads(result["output"]) == {"said": "hello ünïcode"}, result
    assert (seen, result["payment"]["amount"]) == ([{"prompt": "hello ünïcode"}], "0.01"), (seen, result)
    assert result["web"]["x402_version"] == 2, result
    assert money.moved() == (PRICE, PRICE)
    order = json.loads(stoa(stand, "order", "show", result["order_id"]).stdout)
    assert (order["status"], order["payment"]["settlement"]) == ("completed", "settled"), order

    result = bought(stand, f"{origin}/weather?city=Oslo", "--method", "GET")
    assert json.loads(result["output"]) == {"city": "Oslo"}, result
    assert money.moved() == (PRICE, PRICE)

    cheap = stoa(stand, "buy", f"{origin}/run", "--task", "x", "--max-price", "0.005")
    assert cheap.returncode != 0 and "0.01" in cheap.stderr + cheap.stdout, cheap
    # The server fails and settles nothing. The node sends the same payment again, and never signs another one.
    seen.clear()
    failed = stoa(stand, "buy", f"{origin}/broken", "--task", "x", "--timeout", "20")
    assert failed.returncode != 0, failed.stdout
    assert len(seen) >= 1 and len(set(seen)) == 1, seen
    assert money.moved() == (0, 0)


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    makes = {"FastAPI": fastapi_seller, "Flask": flask_seller}
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in makes}
    origins = {name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in sockets.items()}
    with standing("--sellers", ",".join(origins.values())) as stand:
        money = Money(stand)
        for name, sold_by in makes.items():
            seen = []
            with sold_by(stand, sockets[name], seen):
                buy_from(stand, origins[name], seen, money)
            print(f"{name}: declared body, query, price limit, failing handler: passed")


main()
