//! Cursors, bounds and cuts.

use super::*;

#[test]
fn all_kinds_share_one_order() {
    let (log, _) = log();
    let cursors = [
        status(&log, Status::Processing),
        log.push_output(b"hello\n"),
        log.push(Source::Transcript, says("hi")),
        log.push(Source::Process, Body::delivery(DeliveryState::Submitted)),
        log.push(Source::Protocol, Body::event("turn_completed")),
    ];
    let numbers: Vec<u64> = cursors.iter().map(Cursor::sequence).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let answer = log.snapshot(&all().with_since(&cursors[0])).unwrap();
    let kinds: Vec<&str> = answer.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["delivery", "turn_completed"]);
    assert_eq!(answer.cursor, cursors[4]);
    assert_eq!(log.snapshot(&all().with_since(&cursors[0])).unwrap(), answer);
}

#[test]
fn an_answer_has_the_shape_of_the_document() {
    let (log, clock) = log();
    status(&log, Status::Idle);
    clock.advance(std::time::Duration::from_millis(1_120));
    log.push_output(b"\x1b[32mOK\x1b[0m\r\n");
    log.push(Source::Transcript, says("OK"));
    log.push(Source::Process, Body::delivery(DeliveryState::Submitted));
    log.set_input_available(true);
    let answer = log.snapshot(&WatchRequest::default()).unwrap();
    let c = |n: u64| format!("s1:{:016x}:{n:016x}", 1);
    assert_eq!(
        serde_json::to_value(&answer).unwrap(),
        serde_json::json!({
            "schema": 1,
            "agent": {"name": "brave-otter", "uuid": "s1", "provider": "scripted", "status": "idle",
                "last_status_at": "2026-02-03T13:05:00.000Z"},
            "cursor": c(4),
            "events": [{"cursor": c(1), "time": "2026-02-03T13:05:00.000Z", "kind": "status", "source": "hook",
                "status": "idle"}],
            "transcript": {"cursor": c(4), "messages": [{"cursor": c(3), "role": "assistant", "text": "OK",
                "provider": "scripted", "source": "transcript"}],
                "latest_text": "OK", "truncated": false, "omitted_bytes": 0},
            "output": {"text": "OK\n", "truncated": false, "omitted_bytes": 0},
            "delivery": {"input_available": true, "last_state": "submitted", "last_error": null},
        })
    );
    let json = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<WatchResponse>(&json).unwrap(), answer);
}

#[test]
fn a_wrong_cursor_is_refused_with_its_reason() {
    let (log, _) = log();
    let other =
        Log::new("s2", 1, LogSubject::default(), &LogOptions::default(), Arc::new(ManualClock::default()));
    let earlier =
        Log::new("s1", 0, LogSubject::default(), &LogOptions::default(), Arc::new(ManualClock::default()));
    let cursors = [
        ("nonsense".to_owned(), "malformed"),
        (other.latest().to_string(), "foreign"),
        (earlier.latest().to_string(), "other_epoch"),
        (format!("s1:{:016x}:{:016x}", 1, 1), "future"),
    ];
    for (cursor, reason) in cursors {
        let error = log.snapshot(&WatchRequest::default().with_since(cursor)).unwrap_err();
        assert_eq!((error.code(), error.detail("reason")), ("invalid_cursor", Some(reason)));
    }
}

#[test]
fn what_is_gone_is_expired_by_count_and_by_bytes_and_per_kind() {
    let options = LogOptions { output: LaneLimits::new(4, 1 << 20), ..LogOptions::default() };
    let (log, _) = log_with(&options);
    let start = status(&log, Status::Processing);
    for n in 0..10 {
        log.push_output(format!("{n}\n").as_bytes());
    }
    let last = status(&log, Status::Idle);
    let error = log.snapshot(&WatchRequest::default().with_since(&start)).unwrap_err();
    assert_eq!(error.code(), "cursor_expired");
    assert_eq!(error.detail("requested_cursor"), Some(start.to_string().as_str()));
    let oldest = error.detail("oldest_available_cursor").unwrap().to_owned();
    let answer = log.snapshot(&WatchRequest::default().with_since(oldest)).unwrap();
    assert_eq!(answer.output.unwrap().text, "6\n7\n8\n9\n");
    // The flood cost only the output: who asks for the status alone misses nothing.
    let only_status = WatchRequest::default().with_since(&start).with_include([Include::Status]);
    let answer = log.snapshot(&only_status).unwrap();
    assert_eq!(answer.events.iter().map(|event| &event.cursor).collect::<Vec<_>>(), [&last]);
    assert_eq!((log.loss(RecordKind::Output).records, log.loss(RecordKind::Status).records), (6, 0));

    let (log, _) =
        log_with(&LogOptions { output: LaneLimits::new(usize::MAX, 64 * 1024), ..LogOptions::default() });
    let start = log.latest();
    (0..100).for_each(|_| drop(log.push_output(&[b'x'; 4096])));
    let loss = log.loss(RecordKind::Output);
    assert!(loss.records > 80 && loss.bytes > 80 * 4096, "{loss:?}");
    let error = log.snapshot(&WatchRequest::default().with_since(&start)).unwrap_err();
    assert_eq!(error.code(), "cursor_expired");
}

#[test]
fn no_record_is_larger_than_its_lane() {
    let (log, _) = log();
    log.push(Source::Transcript, says(&"é".repeat(1 << 20)));
    log.push(Source::Hook, Body::Event { name: "big".into(), payload: "x".repeat(1 << 20).into() });
    log.push_output(&vec![b'y'; 4 << 20]);
    let answer = log.snapshot(&all().with_tail_bytes(usize::MAX)).unwrap();
    let transcript = answer.transcript.unwrap();
    assert!(
        transcript.truncated && transcript.omitted_bytes > 2_000_000 && !transcript.latest_text.is_empty()
    );
    let big = &answer.events[0];
    assert!(big.fields["omitted_bytes"].as_u64().unwrap() > 1_000_000 && !big.fields.contains_key("payload"));
    assert!(answer.output.unwrap().text.len() < 256 * 1024);
}

#[test]
fn output_is_cut_to_its_end_where_it_may_be_cut() {
    let tail = |output: &[u8], bytes: usize| {
        let (log, _) = log();
        log.push_output(output);
        let answer = log.snapshot(&all().with_tail_bytes(bytes)).unwrap();
        let (output, raw) = (answer.output.unwrap(), answer.raw_output.unwrap());
        assert_eq!(!answer.warnings.is_empty(), output.truncated || raw.truncated);
        (output, raw)
    };
    let (output, _) = tail(b"alpha beta", 6);
    assert_eq!((output.text.as_str(), output.truncated, output.omitted_bytes), ("a beta", true, 4));
    let (output, _) = tail("aéb".as_bytes(), 2);
    assert_eq!((output.text.as_str(), output.omitted_bytes), ("b", 3));
    let (output, _) = tail(b"abc", 0);
    assert_eq!((output.text.as_str(), output.truncated, output.omitted_bytes), ("", true, 3));
    let (output, _) = tail(b"abc", 4);
    assert_eq!((output.truncated, output.oldest_available_cursor), (false, None));
    let (output, raw) = tail(b"\x1b[1;31mred\x1b[0m", 10);
    assert_eq!((output.text.as_str(), raw.text.as_str()), ("red", "red\x1b[0m"));
    assert_eq!((output.truncated, raw.truncated, raw.omitted_bytes), (false, true, 7));
}

#[test]
fn the_edge_of_the_ring_is_no_edge_inside_a_sequence() {
    let (log, _) = log_with(&LogOptions { output: LaneLimits::new(1, 1 << 20), ..LogOptions::default() });
    log.push_output(b"gone \x1b[38;2;1;");
    log.push_output(b"2;3mkept");
    let answer = log.snapshot(&all()).unwrap();
    assert_eq!(answer.output.unwrap().text, "kept");
    assert_eq!(answer.raw_output.unwrap().text, "kept");
}

#[test]
fn a_character_in_two_reads_is_one_character() {
    let (log, _) = log();
    let bytes = "a▐b".as_bytes();
    log.push_output(&bytes[..2]);
    log.push_output(&bytes[2..]);
    log.push_output(b"\xe2\x96");
    log.close();
    let answer = log.snapshot(&all()).unwrap();
    assert_eq!(answer.output.unwrap().text, "a▐b\u{fffd}");
    assert_eq!(answer.raw_output.unwrap().text, "a▐b\u{fffd}");
}

#[test]
fn a_status_is_recorded_once() {
    let (log, _) = log();
    let first = status(&log, Status::Idle);
    assert_eq!(status(&log, Status::Idle), first);
    status(&log, Status::Processing);
    assert_eq!(log.snapshot(&all()).unwrap().events.len(), 2);
}

#[test]
fn classes_are_known_or_an_error() {
    assert_eq!(Include::parse_list("status, raw_output").unwrap(), [Include::Status, Include::RawOutput]);
    assert_eq!(Include::parse_list("status,weather").unwrap_err().code(), "invalid_input");
}

#[test]
fn a_flood_stays_within_its_bounds_and_costs_no_other_kind() {
    let (log, _) = log();
    status(&log, Status::Processing);
    for _ in 0..2_000 {
        log.push_output(&[b'z'; 8192]);
    }
    let answer = log.snapshot(&all().with_tail_bytes(usize::MAX)).unwrap();
    assert!(answer.raw_output.unwrap().text.len() <= 256 * 1024);
    assert_eq!(answer.events.len(), 1);
}
