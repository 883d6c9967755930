//! Bytes for a connection: noise, frames of HTTP/2 in any order, and requests of HTTP/1.1 whose bodies are cut or lie about their length.

use crate::messages::Call;
use crate::random::Random;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns what a program sends that knows nothing of gRPC, or wants to harm.
pub(crate) fn noise(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => random.bytes(4_000),
        1 => [b"\x16\x03\x01".to_vec(), random.bytes(500)].concat(),
        _ => {
            let mut bytes = PREFACE.to_vec();
            if !random.once_in(4) {
                bytes.extend(frame(4, 0, 0, &[]));
            }
            for _ in 0..random.below(40) {
                let payload = random.bytes(60);
                let (kind, flags, stream) = (random.byte() % 12, random.byte(), random.byte() % 16);
                bytes.extend(frame(kind, flags, stream, &payload));
            }
            bytes
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let size = u8::try_from(payload.len()).unwrap();
    [&[0, 0, size, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Returns a request of gRPC-Web, often one that is not sound.
pub(crate) fn web(call: &Call, message: &[u8], port: u16, token: &str, random: &mut Random) -> Vec<u8> {
    let length =
        if random.once_in(4) { random.next().to_be_bytes() } else { (message.len() as u64).to_be_bytes() };
    let flag = if random.once_in(4) { random.byte() } else { 0 };
    let body = [&[flag], &length[4..], message].concat();
    let told = if random.once_in(6) { random.below(100_000) } else { body.len() };
    let method = random.one(&["POST", "POST", "POST", "GET", "OPTIONS", "PUT"]);
    let kind = random.one(&["grpc-web+proto", "grpc-web+proto", "grpc-web-text", "grpc", "json"]);
    let mut request = format!(
        "{method} {} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-type: application/{kind}\r\n\
         content-length: {told}\r\n",
        call.path
    );
    if !token.is_empty() {
        request.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    if random.once_in(4) {
        request.push_str("grpc-timeout: 99999999H\r\ngrpc-encoding: gzip\r\n");
    }
    if random.once_in(4) {
        request.push_str(&format!("x: {}\r\n", "y".repeat(random.below(20_000))));
    }
    let mut request = [request.as_bytes(), b"\r\n", &body].concat();
    if random.once_in(4) {
        request.truncate(random.below(request.len()));
    }
    request
}
