//! Crashes, damage and newer versions.

use proptest::prelude::*;

use super::super::entry::tests::{folded, notice, story};
use super::*;

fn segments(dir: &Path) -> Vec<PathBuf> {
    let numbers = segment::list(dir, Kind::Segment).unwrap();
    numbers.into_iter().map(|number| segment::path(dir, Kind::Segment, number)).collect()
}

/// A closed journal with one record per entry of the story.
fn written(dir: &Path, options: JournalOptions) {
    let Opened { mut journal, .. } = Journal::open_with(dir, options).unwrap();
    for entry in story() {
        journal.append(std::slice::from_ref(&entry)).unwrap();
    }
}

#[test]
fn what_was_appended_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions::default());
    let Opened { state, warnings, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!((state, warnings), (folded(&story()), vec![]));
}

#[test]
fn the_second_writer_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Journal::open(dir.path()).unwrap();
    assert_eq!(Journal::writer(dir.path()), Some(std::process::id()));
    assert_eq!(Journal::writer(dir.path().join("missing")), None);
    let error = Journal::open(dir.path()).unwrap_err();
    assert_eq!((error.code(), error.detail("pid")), ("locked", Some(&*std::process::id().to_string())));
}

#[test]
fn it_can_be_read_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert_eq!(Journal::read(&missing).unwrap(), Default::default());
    assert!(!missing.exists());
    let options = JournalOptions { segment_bytes: 500 };
    let Opened { mut journal, .. } = Journal::open_with(dir.path(), options).unwrap();
    let writer = std::thread::spawn(move || {
        for entry in std::iter::repeat_n(story(), 20).flatten() {
            journal.append(&[entry]).unwrap();
        }
        journal.state.clone()
    });
    while !writer.is_finished() {
        let (_, warnings) = Journal::read(dir.path()).unwrap();
        assert!(warnings.iter().all(|warning| matches!(warning, Warning::TornTail { .. })), "{warnings:?}");
    }
    assert_eq!(Journal::read(dir.path()).unwrap(), (writer.join().unwrap(), vec![]));
}

#[test]
fn it_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let options = JournalOptions { segment_bytes: 2_000 };
    let Opened { mut journal, .. } = Journal::open_with(dir.path(), options).unwrap();
    for _ in 0..50 {
        for entry in story() {
            journal.append(&[entry]).unwrap();
        }
    }
    let expected = journal.state.clone();
    drop(journal);
    let size: u64 =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 20_000, "{size} bytes");
    let Opened { state, warnings, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!((state, warnings), (expected, vec![]));
}

#[test]
fn a_damaged_checkpoint_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions { segment_bytes: 1_000 });
    let newest = segment::list(dir.path(), Kind::Checkpoint).unwrap().pop().unwrap();
    let path = segment::path(dir.path(), Kind::Checkpoint, newest);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let Opened { state, warnings, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!(state, folded(&story()));
    assert!(matches!(warnings.as_slice(), [Warning::Damaged { file, .. }] if *file == path), "{warnings:?}");
    assert!(path.with_extension("checkpoint.damaged").exists());
}

/// No record follows the damaged checkpoint, so the fresh one has its name.
#[test]
fn a_fresh_checkpoint_is_not_put_aside_for_a_damaged_one() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions { segment_bytes: 1_000 });
    let state = Journal::open(dir.path()).unwrap().state;
    let path = segment::path(dir.path(), Kind::Checkpoint, state.seq);
    for _ in 0..2 {
        fs::write(&path, "damaged").unwrap();
        let Opened { state: read, warnings, .. } = Journal::open(dir.path()).unwrap();
        assert!(matches!(warnings.as_slice(), [Warning::Damaged { .. }]), "{warnings:?}");
        assert_eq!(read, state);
        let Opened { state: read, warnings, .. } = Journal::open(dir.path()).unwrap();
        assert_eq!((read, warnings), (state.clone(), vec![]));
        assert!(path.exists());
        assert_eq!(fs::read(path.with_extension("checkpoint.damaged")).unwrap(), b"damaged");
    }
}

#[test]
fn damage_in_the_middle_is_reported_kept_and_read_around() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions::default());
    let path = segments(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADER + 5] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let Opened { mut journal, state, warnings, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!(state, folded(&story()[1..]));
    let offset = HEADER as u64;
    assert!(
        matches!(
            warnings.as_slice(),
            [Warning::Damaged { file, offset: at, .. }, Warning::Missing { from: 1, to: 1 }]
            if *file == path && *at == offset
        ),
        "{warnings:?}"
    );
    assert_eq!(fs::read(path.with_extension("log.damaged")).unwrap(), bytes);
    journal.append(&story()).unwrap();
    let expected = journal.state.clone();
    drop(journal);
    let Opened { state, warnings, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!((state, warnings), (expected, vec![]));
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions::default());
    let path = segments(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADER - 1] = segment::VERSION + 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(dir.path()).unwrap_err();
    assert_eq!((error.code(), error.detail("version")), ("not_supported", Some("3")));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_entry_of_a_newer_version_is_refused_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), JournalOptions::default());
    let path = segments(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    frame::write(&mut bytes, 1_000, br#"[{"seq":1000,"at":"2026-01-01T00:00:00Z","change":"teleported"}]"#);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(Journal::open(dir.path()).unwrap_err().code(), "not_supported");
}

#[test]
fn too_much_at_once_is_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { mut journal, .. } = Journal::open(dir.path()).unwrap();
    let huge = [notice(1, &"x".repeat(frame::MAX_PAYLOAD))];
    let small = [notice(1, "y")];
    let results = journal.append_all(&[&huge, &small]).unwrap();
    assert!(matches!(results.as_slice(), [Err(_), Ok(())]), "{results:?}");
    assert_eq!(journal.append(&huge).unwrap_err().code(), "invalid_input");
    drop(journal);
    let Opened { state, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!(state.seq, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_a_journal_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { mut journal, .. } = Journal::open(dir.path()).unwrap();
    journal.append(&story()[..1]).unwrap();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let real = std::mem::replace(&mut journal.file, full);
    assert_eq!(journal.append(&story()[1..2]).unwrap_err().code(), "out_of_space");
    // A device cannot be cut back, so nobody knows what is there: nothing more is taken.
    assert_eq!(journal.append(&story()[1..2]).unwrap_err().code(), "io");
    drop((real, journal));
    let Opened { mut journal, state, .. } = Journal::open(dir.path()).unwrap();
    assert_eq!(state, folded(&story()[..1]));
    journal.append(&story()[1..]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_prefix_of_the_bytes_is_a_prefix_of_the_entries(cut in 0.0..=1.0_f64) {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), JournalOptions::default());
        let path = segments(dir.path()).pop().unwrap();
        let bytes = fs::read(&path).unwrap();
        let end = (bytes.len() as f64 * cut) as usize;
        fs::write(&path, &bytes[..end]).unwrap();
        let Opened { mut journal, state, .. } = Journal::open(dir.path()).unwrap();
        let count = usize::try_from(state.seq).unwrap();
        prop_assert_eq!(&state, &folded(&story()[..count]));
        // And it goes on from there.
        journal.append(&story()[count..]).unwrap();
        drop(journal);
        let Opened { state, warnings, .. } = Journal::open(dir.path()).unwrap();
        prop_assert_eq!((state, warnings), (folded(&story()), vec![]));
    }

    #[test]
    fn no_damage_panics_or_passes_unnoticed(flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..20)) {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), JournalOptions { segment_bytes: 1_500 });
        let files: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().is_some_and(|name| name != "lock"))
            .collect();
        for (at, bit) in flips {
            let path = at.get(&files);
            let mut bytes = fs::read(path).unwrap();
            let index = at.index(bytes.len());
            bytes[index] ^= 1 << bit;
            fs::write(path, bytes).unwrap();
        }
        match Journal::open(dir.path()) {
            Ok(Opened { state, warnings, .. }) => {
                prop_assert!(state == folded(&story()) || !warnings.is_empty());
            }
            Err(error) => prop_assert_eq!(error.code(), "not_supported"),
        }
    }
}
