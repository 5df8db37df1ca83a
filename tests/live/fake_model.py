"""A Messages API with a script for a mind: the real Claude Code talks to it, so the tests need no account and no network.

The first word of what is typed says what the "model" does:

    RUN: command             one Bash call                  BG: command          the same in the background
    TWO: command ;; command  two Bash calls at once         WRITE: file text     the Write tool
    EDIT: file old => new    Read, then Edit                ASK                  AskUserQuestion, one question
    PLAN                     the plan file, ExitPlanMode    SUB: prompt          a subagent that is told the prompt
    TWOSUB: prompt ;; prompt two of them                    SLOW: seconds        an answer that takes so long
    FAIL: status             that HTTP error                CALL: tool {input}   any tool, its input as JSON
    anything else            one line, in half a second

THEN: seconds at the end makes the answer that follows the tool take so long; \\n in WRITE's text is a new line.
By hand: `python3 fake_model.py PORT`.
"""
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

QUESTION = {"question": "Which colour should the barn be?", "header": "Barn", "multiSelect": False,
            "options": [{"label": "Red", "description": "as it was"}, {"label": "White", "description": "as the house"}]}
MOMENT = 0.5  # no real model is faster, and after a turn of 0.1 s Claude Code's record has not changed at all
PLAN = "# Mend the fence\n1. Count the posts\n2. Replace the rotten ones"


def blocks_of(message):
    """The content of a message as a list of blocks: the API takes a plain string too."""
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def newest_prompt(messages):
    """What was typed last, and how many tool results have come since then."""
    results = 0
    for message in reversed(messages):
        if message.get("role") != "user":
            continue
        for block in reversed(blocks_of(message)):
            if block.get("type") == "tool_result":
                results += 1
                continue
            text = re.sub(r"(?s)<system-reminder>.*?</system-reminder>", "", block.get("text", "")).strip()
            if text and not text.startswith("[Request interrupted"):
                return text, results
    return "", results


def text(words):
    return {"type": "text", "text": words}


def call(tool, **tool_input):
    return {"type": "tool_use", "name": tool, "input": tool_input}


def bash(command, **more):
    return call("Bash", command=command, description="From the script", **more)


def agent(prompt):
    return call("Agent", description="A helper", prompt=prompt, subagent_type="general-purpose")


def edit(words, _):
    """Read, then Edit: Claude Code refuses to edit a file that the model has not seen."""
    name, old, new = re.match(r"(\S+) (.*) => (.*)", words).groups()
    return [[call("Read", file_path=name)], [call("Edit", file_path=name, old_string=old, new_string=new)]]


def write(words, _):
    name, content = words.split(" ", 1)
    return [[call("Write", file_path=name, content=content.replace("\\n", "\n"))]]


def any_call(words, _):
    tool, tool_input = words.split(" ", 1)
    return [[call(tool, **json.loads(tool_input))]]


def plan(_, request):
    """In plan mode Claude Code names a file for the plan, and ExitPlanMode takes it from there, not from the call."""
    name = re.search(r"/[^\s\"\\]+/plans/[^\s\"\\]+\.md", json.dumps(request)).group()
    return [[call("Write", file_path=name, content=PLAN)], [call("ExitPlanMode")]]


def each(make):
    """Several calls in one message, their arguments apart by ;;"""
    return lambda words, _: [[make(part) for part in words.split(" ;; ")]]


# Word -> the messages of the model, each a list of blocks; every one but the last waits for the results of its calls.
VERBS = {
    "RUN": lambda words, _: [[bash(words)]],
    "BG": lambda words, _: [[bash(words, run_in_background=True)]],
    "CALL": any_call,
    "TWO": each(bash),
    "WRITE": write,
    "EDIT": edit,
    "ASK": lambda *_: [[call("AskUserQuestion", questions=[QUESTION])]],
    "PLAN": plan,
    "SUB": lambda words, _: [[agent(words)]],
    "TWOSUB": each(agent),
}


def answer(request):
    """The blocks of the model's next message, and the seconds it takes over them."""
    if not request.get("tools"):  # a side question of Claude Code's own, such as a title for the session
        return [text('{"title": "A scripted session"}')], 0
    prompt, results = newest_prompt(request.get("messages", []))
    verb, words, then = re.match(r"(?s)([A-Z]+)?(?:: )?(.*?)(?: THEN: ([\d.]+))?$", prompt).groups()
    for message in VERBS[verb](words, request) if verb in VERBS else []:
        if results < len(message):
            return message, 0
        results -= len(message)
    if verb in VERBS:
        return [text("The script is at its end. What next?")], float(then or 0)
    return [text("You said: " + prompt[:200])], float(words) if verb == "SLOW" else MOMENT


def events(message, blocks, seconds):
    """The message as the events of a stream, some of them after a pause."""
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start = text("")
            pieces = [{"type": "text_delta", "text": piece} for piece in re.findall(r"\s*\S+", block["text"])]
        else:
            start = {**block, "input": {}}
            pieces = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for piece in pieces:
            yield {"type": "content_block_delta", "index": index, "delta": piece}
            time.sleep(seconds / len(pieces))
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "usage": {"output_tokens": 1},
           "delta": {"stop_reason": stop_reason(blocks), "stop_sequence": None}}
    yield {"type": "message_stop"}


def stop_reason(blocks):
    return "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.reply(200, {})

    def do_GET(self):
        self.refuse(404)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path.split("?")[0] == "/v1/messages/count_tokens":
            return self.reply(200, {"input_tokens": 1})
        if self.path.split("?")[0] != "/v1/messages":
            return self.refuse(404)
        prompt, _ = newest_prompt(request.get("messages", []))
        if request.get("tools") and re.match(r"FAIL: \d+", prompt):
            return self.refuse(int(prompt.split()[1]))
        blocks, seconds = answer(request)
        serial = "%x" % time.time_ns()
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                block["id"] = "toolu_%s_%d" % (serial, index)
        message = {"id": "msg_" + serial, "type": "message", "role": "assistant", "model": request.get("model"),
                   "content": [], "stop_reason": None, "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}
        if request.get("stream"):
            return self.stream(events(message, blocks, seconds))
        time.sleep(seconds)
        self.reply(200, {**message, "content": blocks, "stop_reason": stop_reason(blocks)})

    def stream(self, items):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()  # HTTP/1.0: the end of the connection is the end of the answer
        try:
            for item in items:
                self.wfile.write(("event: %s\ndata: %s\n\n" % (item["type"], json.dumps(item))).encode())
        except OSError:
            pass  # Esc: Claude Code hung up

    def refuse(self, status):
        self.reply(status, {"type": "error", "error": {"type": "invalid_request_error",
                                                       "message": "the script says no"}})

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Model(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that hangs up early is no news; anything else is a mistake in the script and should be seen."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def start(port=0):
    """The model on a loopback port, in a thread of its own; `.server_port` says which, `.shutdown()` ends it."""
    model = Model(("127.0.0.1", port), Handler)
    threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return model


if __name__ == "__main__":
    Model(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
