//! The four APIs, as a client sees them.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use watchfire_model_server::{ModelServer, Script};

/// Posts JSON; gives status and body, and whether the body came to its end.
async fn post(server: &ModelServer, path: &str, body: &Value) -> (u16, String, bool) {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer k1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read: io::Result<usize> = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let whole = !head.contains("chunked") || body.ends_with("0\r\n\r\n");
    (status, body.to_owned(), read.is_ok() && whole)
}

async fn server(script: Value) -> ModelServer {
    let script: Script = serde_json::from_value(script).unwrap();
    ModelServer::start(script, 0).await.unwrap()
}

fn bash() -> Value {
    json!({ "type": "object", "properties": { "command": { "type": "string" } }, "required": ["command"] })
}

#[tokio::test]
async fn each_api_runs_a_command_and_ends() {
    let server =
        server(json!([{ "turns": [{ "text": "On it.", "run": "ls" }, { "text": "All done." }] }])).await;
    let function = json!({ "name": "shell", "parameters": bash() });
    let cases = [
        (
            "/v1/messages",
            json!({ "system": "S", "tools": [{ "name": "Bash", "input_schema": bash() }],
                    "messages": [{ "role": "user", "content": "go" }] }),
            json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "x", "content": "out" }] }),
            "messages",
        ),
        (
            "/v1/chat/completions",
            json!({ "tools": [{ "type": "function", "function": function }],
                    "messages": [{ "role": "system", "content": "S" }, { "role": "user", "content": "go" }] }),
            json!({ "role": "tool", "tool_call_id": "x", "content": "out" }),
            "messages",
        ),
        (
            "/v1/responses",
            json!({ "instructions": "S", "tools": [{ "type": "function", "name": "shell", "parameters": bash() }],
                    "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "go" }] }] }),
            json!({ "type": "function_call_output", "call_id": "x", "output": "out" }),
            "input",
        ),
        (
            "/v1beta/models/m:generateContent",
            json!({ "systemInstruction": { "parts": [{ "text": "S" }] },
                    "tools": [{ "functionDeclarations": [function] }],
                    "contents": [{ "role": "user", "parts": [{ "text": "go" }] }] }),
            json!({ "role": "user", "parts": [{ "functionResponse": { "name": "shell", "response": { "output": "out" } } }] }),
            "contents",
        ),
    ];
    for (path, mut body, result, list) in cases {
        let (status, first, _) = post(&server, path, &body).await;
        assert_eq!(status, 200, "{path}: {first}");
        assert!(first.contains("On it.") && first.contains("ls"), "{path}: {first}");
        body["stream"] = json!(true);
        let streamed = path.replace(":generate", ":streamGenerate");
        let (_, pieces, whole) = post(&server, &streamed, &body).await;
        assert!(whole && pieces.contains("data: ") && pieces.contains("On "), "{path}: {pieces}");
        body[list].as_array_mut().unwrap().push(result);
        body["stream"] = json!(false);
        let (_, second, _) = post(&server, path, &body).await;
        assert!(second.contains("All done."), "{path}: {second}");
        let ask = server.asks().pop().unwrap();
        assert_eq!((ask.system.as_str(), ask.user.as_str(), ask.results), ("S", "go", 1), "{path}");
        assert_eq!(ask.key, "k1", "{path}");
        assert!(ask.outputs[0].contains("out"), "{path}");
    }
}

#[tokio::test]
async fn faults_come_as_often_as_they_should() {
    let server = server(json!([
        { "when": "slow", "turns": [{ "fault": "rate_limit", "times": 2, "text": "There." }] },
        { "when": "cut", "turns": [{ "cut": true, "times": 1, "text": "A whole answer." }] },
        { "turns": [{ "fault": "unauthorized" }] },
    ]))
    .await;
    let ask = |text: &str| {
        json!({ "stream": true, "tools": [{ "name": "Bash", "input_schema": bash() }],
                "messages": [{ "role": "user", "content": text }] })
    };
    for status in [429, 429, 200, 200] {
        assert_eq!(post(&server, "/v1/messages", &ask("slow one")).await.0, status);
    }
    let (_, _, whole) = post(&server, "/v1/messages", &ask("cut it")).await;
    assert!(!whole);
    let (_, text, whole) = post(&server, "/v1/messages", &ask("cut it")).await;
    assert!(whole && text.contains("message_stop"));
    for _ in 0..3 {
        let (status, body, _) = post(&server, "/v1/messages", &ask("other")).await;
        assert_eq!(status, 401);
        assert!(body.contains("authentication_error"));
    }
}

/// Codex has the tools of a server in a namespace, and calls name both.
#[tokio::test]
async fn a_tool_of_a_server_is_called_in_its_namespace() {
    let turn = json!({ "tool": "finish", "input": { "success": true } });
    let server = server(json!([{ "turns": [turn] }])).await;
    let tool = json!({ "type": "function", "name": "finish", "parameters": { "type": "object" } });
    let namespace = json!({ "type": "namespace", "name": "mcp__watchfire", "tools": [tool] });
    let body = json!({ "input": "go", "tools": [namespace] });
    let (_, answer, _) = post(&server, "/v1/responses", &body).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let call = &answer["output"][0];
    assert_eq!(
        (&call["namespace"], &call["name"], &call["arguments"]),
        (&"mcp__watchfire".into(), &"finish".into(), &r#"{"success":true}"#.into())
    );
}

/// Two agents that use one server: what one is told is what the other waited for.
#[tokio::test]
async fn an_answer_waits_for_what_another_is_told() {
    let server = server(json!([
        { "when": "first", "turns": [{ "text": "After you.", "awaits": "second" }] },
        { "turns": [{ "text": "Here." }] },
    ]))
    .await;
    let tools = json!([{ "type": "function", "function": { "name": "shell", "parameters": bash() } }]);
    let body = |words: &str| json!({ "tools": tools, "messages": [{ "role": "user", "content": words }] });
    let (first, second) = (body("the first"), body("the second"));
    let begun = async {
        while server.asks().is_empty() {
            tokio::task::yield_now().await;
        }
        post(&server, "/v1/chat/completions", &second).await
    };
    let ((_, waited, _), _) = tokio::join!(post(&server, "/v1/chat/completions", &first), begun);
    assert!(waited.contains("After you."), "{waited}");
    let said: Vec<_> = server.said().into_iter().map(|said| (said.ask, said.text)).collect();
    assert_eq!(said, [(1, "Here.".into()), (0, "After you.".to_owned())]);
}
