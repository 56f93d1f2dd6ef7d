"""Starts stand.ts for a script, and reads the money on its chain."""
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / "node_modules" / ".bin" / "node"


@contextmanager
def standing(*arguments):
    """What stand.ts prints, as an object. The stand ends with the block."""
    command = [NODE, ROOT / "test" / "conformance" / "stand.ts", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if line == "":
            sys.exit("the stand has not started")
        yield json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields))
    finally:
        process.stdin.close()
        process.wait(timeout=60)


def balance(stand, address):
    """USDC of an account on the chain, in atomic units."""
    data = "0x70a08231" + address[2:].lower().rjust(64, "0")
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{"to": stand.usdc, "data": data}, "latest"]}
    request = Request(stand.rpc_url, json.dumps(call).encode(), {"content-type": "application/json"})
    return int(json.load(urlopen(request))["result"], 16)


class Money:
    """What the buyer has paid and the seller has got since the last look."""

    def __init__(self, stand):
        self.stand = stand
        self.last = self.read()

    def read(self):
        return [balance(self.stand, one.address) for one in (self.stand.buyer, self.stand.seller)]

    def moved(self):
        before, self.last = self.last, self.read()
        return (before[0] - self.last[0], self.last[1] - before[1])
