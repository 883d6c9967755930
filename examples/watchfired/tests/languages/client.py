"""A client in Python without generated code: the daemon describes its calls by reflection.

The part between the marks is the example of docs/api.md. The rest does what `tests/python.rs` asserts, and prints it as JSON.
"""

import json
import os
import signal
import sys
import time

# --- docs/api.md
import pathlib

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Token(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds the token to every call, also to those of reflection."""

    def __init__(self, token):
        self.metadata = [("authorization", f"Bearer {token}")]

    def add(self, proceed, details, request):
        return proceed(details._replace(metadata=self.metadata), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = add


class Service:
    """A service of the daemon, each call a method with the fields of its request."""

    def __init__(self, channel, name):
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        for method in pool.FindServiceByName(name).methods:
            request, answer = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
            kind = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = kind(f"/{name}/{method.name}", request.SerializeToString, answer.FromString)
            setattr(self, method.name, lambda call=call, request=request, **fields: call(request(**fields)))


def daemon(home=pathlib.Path.home() / ".watchfire"):
    """Connects to the port of the daemon that runs for a home."""
    lines = (home / "daemon.yaml").read_text().splitlines()
    at = dict(line.split(": ", 1) for line in lines if ": " in line)
    return grpc.intercept_channel(grpc.insecure_channel(f"127.0.0.1:{at['port']}"), Token(at["token"]))


def by_socket(home=pathlib.Path.home() / ".watchfire"):
    """Connects to its socket, which takes no token. grpcio would send the path as name of the host."""
    return grpc.insecure_channel(f"unix:{home}/api/daemon.sock", [("grpc.default_authority", "localhost")])


def projects(channel):
    return Service(channel, "watchfire.ProjectService").ListProjects().projects
# --- docs/api.md


DEADLINE = time.monotonic() + 60


def until(what, holds):
    while not holds():
        if time.monotonic() > DEADLINE:
            sys.exit(f"never: {what}")
        time.sleep(0.02)


def work(channel, project):
    """Runs a task to its end. Returns what its screen showed, what it printed, and its log."""
    agents, tasks = (Service(channel, f"watchfire.{name}") for name in ("AgentService", "TaskService"))
    script = "```watchfire-script\nsay hello from python\nwrite n 1\ncommit n\ndone\n```\n"
    task = tasks.CreateTask(project_id=project, title="Work", prompt=script, status="ready").task_number
    screens, output = (call(project_id=project) for call in (agents.SubscribeScreen, agents.SubscribeRawOutput))
    # Both follow the project from here on, so nothing of the agent is missed.
    screens.initial_metadata(), output.initial_metadata()
    session = agents.StartAgent(project_id=project, mode="task", task_number=task).session_id
    shown, outcome = [], None
    for screen in screens:
        shown.extend(screen.lines)
        session = screen.session_id
        if screen.HasField("end"):
            outcome = screen.end.outcome
            break
    screens.cancel()
    printed = b""
    for chunk in output:
        printed += chunk.data
        if b"hello from python" in printed:
            break
    output.cancel()
    until("it is over", lambda: agents.GetAgentStatus(project_id=project).state == "idle")
    logs = Service(channel, "watchfire.LogService")
    listed = logs.ListLogs(project_id=project, task_number=task).logs
    log = logs.GetLog(project_id=project, log_id=listed[0].log_id)
    return {
        "screen": "\n".join(shown),
        "printed": printed.decode(errors="replace"),
        "outcome": outcome,
        "log": {"status": log.status, "content": log.content},
        "state": tasks.GetTask(project_id=project, task_number=task).state,
    }


def refusal(channel, name="watchfire.ProjectService"):
    """Returns the code of a call by hand, and that of reflection."""
    codes = []
    call = channel.unary_unary(f"/{name}/ListProjects", lambda _: b"", lambda answer: answer)
    for attempt in (lambda: call(None), lambda: Service(channel, name)):
        try:
            attempt()
            codes.append("OK")
        except grpc.RpcError as error:
            codes.append(error.code().name)
    return codes


def main():
    # A stream that stays silent ends the test, not its patience.
    signal.alarm(120)
    home = pathlib.Path(os.environ["WATCHFIRE_HOME"])
    channel = daemon(home)
    address = f"127.0.0.1:{os.environ['WATCHFIRE_TEST_PORT']}"
    listed = [(project.project_id, project.name) for project in projects(channel)]
    bare = grpc.insecure_channel(address)
    print(json.dumps({
        "projects": [name for _, name in listed],
        "work": work(channel, listed[0][0]),
        "without": refusal(bare),
        "wrong": refusal(grpc.intercept_channel(bare, Token("0" * 64))),
        "renamed": refusal(grpc.intercept_channel(
            grpc.insecure_channel(address, [("grpc.default_authority", "evil.example")]),
            Token((home / "daemon.yaml").read_text().split("token: ")[1].strip()),
        )),
        "socket": [project.name for project in projects(by_socket(home))],
    }))


if __name__ == "__main__":
    main()
