"""The Python SDK of OpenAI buys through the OpenAI door of a running node.

    pip install openai==3.54.0
    python test/conformance/openai_python.py http://127.0.0.1:8424/v1 <id of an echo agent>

The node needs `openai_door: true`, and the agent answers with its task. Exits with 0 if all holds.
"""
import sys

from openai import APIStatusError, OpenAI

base_url, model = sys.argv[1:3]
client = OpenAI(base_url=base_url, api_key="any")


def say(text):
    return [{"role": "user", "content": text}]


assert any(one.id == model for one in client.models.list().data), "the agent is listed as a model"

whole = client.chat.completions.create(model=model, messages=say("Whole"))
assert whole.choices[0].message.content == "Whole", whole
assert whole.model == model

stream = client.chat.completions.create(
    model=model, messages=say("Streamed"), stream=True, stream_options={"include_usage": True}
)
chunks = list(stream)
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Streamed"
assert chunks[-1].usage is not None

assert client.responses.create(model=model, input="Response").output_text == "Response"
with client.responses.stream(model=model, input="Response in pieces") as events:
    events.until_done()
    assert events.get_final_response().output_text == "Response in pieces"

try:
    client.chat.completions.create(model="nobody", messages=say("x"))
    raise SystemExit("an unknown model was answered")
except APIStatusError as error:
    assert (error.status_code, error.code) == (404, "model_not_found"), error

print("chat, streamed chat, responses, streamed responses, models and errors passed")
