"""Schemathesis sends what it likes to the public listener, by its OpenAPI document, and finds no fault of the node.

    pip install schemathesis==4.32.5
    python test/conformance/public_schemathesis.py [examples of each operation]

Beside the document's own paths it asks those of MCP and A2A, which the document does not have. Starts a chain and a
seller by itself. Exits with 0 if all holds.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from stand import standing

EXAMPLES = sys.argv[1] if len(sys.argv) > 1 else "200"
# An agent that always fails answers 502, which is no fault of the node. Nobody gets that far without a payment.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"
ANYTHING = {"description": "Anything"}


def operation(name, body=None, parameters=()):
    one = {"operationId": name, "responses": {"default": ANYTHING}, "parameters": list(parameters)}
    return one if body is None else {**one, "requestBody": {"content": {"application/json": {"schema": body}}}}


def header(name, *values):
    return {"name": name, "in": "header", "schema": {"enum": list(values)} if values else {"type": "string"}}


def rpc(*methods):
    """JSON-RPC as it may be, and anything else."""
    params = {"type": "object", "properties": {"name": {"type": "string"}, "_meta": {"type": "object"}, "message": MESSAGE}}
    call = {
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, "id": {"type": "integer"}, "method": {"enum": methods}, "params": params},
        "required": ["jsonrpc", "id", "method"],
    }
    return {"anyOf": [call, {}]}


MESSAGE = {
    "type": "object",
    "properties": {
        "messageId": {"type": "string"},
        "role": {"enum": ["ROLE_USER", "user"]},
        "parts": {"type": "array", "items": {"anyOf": [{"type": "object", "properties": {"text": {"type": "string"}}}, {}]}},
        "metadata": {"type": "object", "properties": {"x402.payment.status": {"type": "string"}, "x402.payment.payload": {}}},
    },
    "required": ["messageId", "role", "parts"],
}


def standards(agents):
    """The paths of MCP and A2A. Their own kits know what they must answer: here they must only not break."""
    versions = [header("A2A-Version", "1.0", "0.3", "9"), header("A2A-Extensions")]
    mcp = [
        header("Accept", "application/json, text/event-stream", "*/*"),
        header("Mcp-Protocol-Version", "2025-06-18", "2026-07-28", "x"),
        *(header(name) for name in ("Mcp-Method", "Mcp-Name", "Mcp-Session-Id")),
    ]
    calls = rpc("initialize", "tools/list", "tools/call", "ping", "server/discover")
    paths = {"/mcp": {"post": operation("mcp", calls, mcp), "get": operation("mcpGet", None, mcp), "delete": operation("mcpEnd", None, mcp)}}
    for name, agent in agents.items():
        sends = rpc("SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "message/send", "tasks/get", "ListTasks")
        paths[f"/a2a/{agent}"] = {"post": operation(f"a2a_{name}", sends, versions)}
        paths[f"/a2a/{agent}/.well-known/agent-card.json"] = {"get": operation(f"card_{name}", None, versions)}
        rest = {"type": "object", "properties": {"message": MESSAGE}}
        paths[f"/a2a/{agent}/rest/message:send"] = {"post": operation(f"rest_{name}", {"anyOf": [rest, {}]}, versions)}
        task = [{"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}, *versions]
        paths[f"/a2a/{agent}/rest/tasks/{{task}}"] = {"get": operation(f"task_{name}", None, task)}
    return paths


def run(document, url, checks):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "openapi.json"
        file.write_text(json.dumps(document))
        command = [
            Path(sys.executable).with_name("schemathesis"),
            *("run", file, "--url", url, "--checks", checks, "--max-examples", EXAMPLES),
            # Below the limits of the listener: refusals for haste would hide all else.
            *("--mode", "all", "--rate-limit", "80/s", "--seed", "1", "--no-color"),
            *("--phases", "examples,coverage,fuzzing", "--request-timeout", "30"),
        ]
        done = subprocess.run(command, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"schemathesis ended with {done.returncode}")


def main():
    with standing() as stand:
        document = json.load(urlopen(f"{stand.public_url}/openapi.json"))
        run(document, stand.public_url, CHECKS)
        agents = {name: getattr(stand.agents, name) for name in ("echo", "free")}
        run({**document, "paths": standards(agents)}, stand.public_url, "not_a_server_error")
        print("every path of the document, MCP and A2A: no fault of the node")


main()
