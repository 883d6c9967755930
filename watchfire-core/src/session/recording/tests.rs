//! What is written is read back, with its gaps.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{AsciicastVersion, Recorded, Recorder, Recording, Tail};
use crate::terminal::Size;

const SIZE: Size = Size::new(120, 40);

fn parts(recording: &std::path::Path) -> Vec<Recorded> {
    let recording = Recording::open(recording).unwrap().expect("a recording");
    recording.read().collect::<Result<_, _>>().unwrap()
}

fn output(parts: &[Recorded]) -> Vec<u8> {
    let bytes = |part: &Recorded| match part {
        Recorded::Output { bytes, .. } => bytes.clone(),
        _ => Vec::new(),
    };
    parts.iter().flat_map(bytes).collect()
}

/// Reads to offset `end` as a session does.
fn follow(tail: &mut Tail, mut offset: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
    let mut read = Vec::new();
    while offset < end
        && let Some((at, bytes)) = tail.read(offset, 1000).unwrap()
    {
        offset = at + bytes.len() as u64;
        read.push((at, bytes));
    }
    read
}

#[test]
fn what_is_written_is_read_live_and_afterwards() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    let mut tail = Tail::new(folder.clone());
    assert_eq!(tail.read(0, 10).unwrap(), None);
    recorder.push(b"one");
    assert_eq!(tail.read(0, 10).unwrap(), Some((0, b"one".to_vec())));
    recorder.resize(Size::new(80, 24));
    recorder.push("zw\u{f6}lf".as_bytes());
    assert_eq!(tail.read(3, 4).unwrap(), Some((3, "zw\u{f6}".into())));
    assert_eq!(tail.read(1, 2).unwrap(), Some((1, b"ne".to_vec())), "again, from anywhere");
    let [Recorded::Resize { size, .. }, _, Recorded::Resize { size: then, .. }, rest] = &parts(&folder)[..]
    else {
        panic!("{:?}", parts(&folder))
    };
    assert_eq!((*size, *then), (SIZE, Size::new(80, 24)));
    assert!(matches!(rest, Recorded::Output { offset: 3, bytes, .. } if bytes == "zw\u{f6}lf".as_bytes()));
    for file in fs::read_dir(&folder).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(Recorder::create(&folder, None).is_err(), "a recording is never overwritten");
    assert_eq!(Recording::open(&temp.path().join("none")).unwrap(), None);
}

#[test]
fn the_newest_64_mib_are_kept_in_segments() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    let mut tail = Tail::new(folder.clone());
    let mebibyte = vec![b'x'; 1 << 20];
    let mut read = 0;
    for _ in 0..100 {
        recorder.push(&mebibyte);
        while read < recorder.end() {
            let (at, bytes) = tail.read(read, 300_000).unwrap().expect("output");
            assert_eq!(at, read, "a reader that keeps up misses nothing");
            read += bytes.len() as u64;
        }
    }
    let found = parts(&folder);
    let Some(Recorded::Missing { offset: 0, length }) = found.first() else { panic!("nothing was removed") };
    assert_eq!(length + output(&found).len() as u64, 100 << 20);
    assert!((60 << 20..=64 << 20).contains(&output(&found).len()), "{length}");
    assert_eq!(tail.read(5, 10).unwrap(), Some((*length, mebibyte[..10].to_vec())), "what is left");
}

/// A file in place of the folder stands for a full disk: nothing can be created in it.
#[test]
fn a_disk_that_is_full_for_a_while_leaves_a_gap() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, away) = (temp.path().join("a.recording"), temp.path().join("away"));
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    let mut tail = Tail::new(folder.clone());
    let most = vec![b'a'; (4 << 20) - 1];
    recorder.push(&most);
    fs::rename(&folder, &away).unwrap();
    fs::write(&folder, "").unwrap();
    recorder.push(b"bcc");
    recorder.resize(Size::new(80, 24));
    assert_eq!(recorder.end(), (4 << 20) + 2, "what is lost counts");
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    let begun = std::time::Instant::now();
    let mut lost = 2;
    while fs::read_dir(&folder).unwrap().count() < 4 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "it never goes on");
        recorder.push(b"d");
        lost += 1;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    lost -= 1;
    let found = parts(&folder);
    let [Recorded::Resize { .. }, Recorded::Output { .. }, Recorded::Missing { offset, length }, rest @ ..] =
        &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((*offset, *length), (4 << 20, lost));
    assert!(matches!(&rest[0], Recorded::Resize { size, .. } if *size == Size::new(80, 24)));
    let live = follow(&mut tail, (4 << 20) - 2, recorder.end());
    assert_eq!(live, [((4 << 20) - 2, b"ab".to_vec()), ((4 << 20) + lost, b"d".to_vec())]);
}

#[test]
fn a_recording_that_is_removed_begins_again() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, None).unwrap();
    let mut tail = Tail::new(folder.clone());
    recorder.push(b"read");
    assert_eq!(tail.read(0, 4).unwrap(), Some((0, b"read".to_vec())));
    fs::remove_dir_all(&folder).unwrap();
    recorder.push(&vec![b'x'; 4 << 20]);
    let read = follow(&mut tail, 4, recorder.end());
    assert_eq!(read.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 4 << 20, "nothing is missing");
    assert_eq!(output(&parts(&folder)), b"xxxx", "what came after the first segment");
}

#[test]
fn asciinema_can_play_it() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    recorder.push(b"\x1b[31mgr\xc3");
    // Otherwise both are one event.
    std::thread::sleep(std::time::Duration::from_millis(40));
    recorder.push(b"\xbc\xff\r\n");
    recorder.resize(Size::new(80, 24));
    recorder.push(b"end\xc3");
    recorder.finish(Some(3));
    let recording = Recording::open(&folder).unwrap().unwrap();
    for version in [AsciicastVersion::V2, AsciicastVersion::V3] {
        let mut cast = Vec::new();
        recording.write_asciicast(version, "a title", &mut cast).unwrap();
        let lines: Vec<serde_json::Value> =
            cast.split(|byte| *byte == b'\n').flat_map(serde_json::from_slice).collect();
        let events: Vec<_> =
            lines[1..].iter().map(|it| (it[1].as_str().unwrap(), it[2].as_str().unwrap())).collect();
        let mut expected =
            vec![("o", "\x1b[31mgr"), ("o", "\u{fc}\u{fffd}\r\n"), ("r", "80x24"), ("o", "end")];
        expected.extend((version == AsciicastVersion::V3).then_some(("x", "3")));
        assert_eq!(events, expected);
        let times: Vec<f64> = lines[1..].iter().map(|it| it[0].as_f64().unwrap()).collect();
        assert!(times[0] < 0.03 && times[1] >= 0.04, "{times:?}");
        assert_eq!(lines[0]["title"], "a title");
        if version == AsciicastVersion::V3 {
            assert_eq!((&lines[0]["version"], &lines[0]["term"]["cols"]), (&3.into(), &120.into()));
            assert!(times[2] < times[1], "intervals: {times:?}");
        } else {
            assert_eq!((&lines[0]["version"], &lines[0]["width"]), (&2.into(), &120.into()));
            assert!(times.is_sorted(), "since the beginning: {times:?}");
        }
    }
}

#[tokio::test]
async fn a_recording_is_followed_from_anywhere_to_its_end() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    recorder.push(b"before");
    let mut follow = Recording::open(&folder).unwrap().unwrap().follow();
    let writer = std::thread::spawn(move || {
        // More than a segment, and in pieces that a reader meets half-written.
        for piece in 0..600_u32 {
            recorder.push(&piece.to_le_bytes().repeat(2048));
            if piece % 100 == 0 {
                recorder.resize(Size::new(u16::try_from(piece).unwrap() + 1, 24));
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        recorder.finish(None);
    });
    let (mut sizes, mut read, mut ends) = (Vec::new(), Vec::new(), 0);
    while let Some(part) =
        tokio::time::timeout(std::time::Duration::from_secs(30), follow.next()).await.unwrap().unwrap()
    {
        match part {
            Recorded::Resize { size, .. } => sizes.push((size.cols(), read.len())),
            Recorded::Output { offset, bytes, .. } => {
                assert_eq!(offset, read.len() as u64);
                read.extend(bytes);
            }
            Recorded::End { .. } => ends += 1,
            Recorded::Missing { .. } => panic!("{part:?}"),
        }
    }
    writer.join().unwrap();
    let pieces = (0..600_u32).flat_map(|piece| piece.to_le_bytes().repeat(2048));
    assert!(read == b"before".iter().copied().chain(pieces).collect::<Vec<_>>(), "{} bytes", read.len());
    let at = |piece: usize| (u16::try_from(piece).unwrap() + 1, 6 + (piece + 1) * 8192);
    assert_eq!(sizes, [vec![(120, 0)], (0..600).step_by(100).map(at).collect()].concat());
    assert_eq!(ends, 1);
    assert_eq!(follow.next().await.unwrap(), None);
}

#[tokio::test]
async fn its_text_is_followed_by_line() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, Some(SIZE)).unwrap();
    let mut lines = Recording::open(&folder).unwrap().unwrap().follow().lines();
    recorder.push(b"\x1b[31mone\x1b[0m\r\nworking 1\rworking 2");
    assert_eq!(lines.next().await.unwrap().as_deref(), Some("one\n"));
    recorder.push(b"\rworking 3\r\nlast");
    assert_eq!(lines.next().await.unwrap().as_deref(), Some("working 3\n"));
    recorder.finish(Some(0));
    assert_eq!(lines.next().await.unwrap().as_deref(), Some("last\n"));
    assert_eq!(lines.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_recording_whose_writer_was_killed_ends_too() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("a.recording");
    let mut recorder = Recorder::create(&folder, None).unwrap();
    recorder.push(b"all");
    let mut follow = Recording::open(&folder).unwrap().unwrap().follow();
    assert!(matches!(follow.next().await.unwrap(), Some(Recorded::Output { bytes, .. }) if bytes == b"all"));
    drop(recorder);
    assert_eq!(follow.next().await.unwrap(), None);
}
