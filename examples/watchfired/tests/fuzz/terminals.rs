//! Terminals that are lent to the daemon, with requests, sizes, keys and ends of all kinds.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use prost::Message as _;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::bytes::BytesMut;
use watchfire_api::attach::{ATTACH, put, send_terminal};
use watchfire_api::work_proto::AttachRequest;

use crate::random::Random;

/// Lends a terminal to the daemon of a home for a moment.
pub(crate) async fn lend(home: &Path, random: &mut Random, known: &[String]) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).and_then(|()| unlockpt(&ours)).unwrap();
    let blocks = if random.once_in(10) { OFlags::empty() } else { OFlags::NONBLOCK };
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | blocks;
    let theirs = open(ptsname(&ours, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
    rustix::io::ioctl_fionbio(&ours, true).unwrap();
    let mut ours = Some(std::fs::File::from(ours));

    let mut bytes = BytesMut::from(&ATTACH[..]);
    if random.once_in(5) {
        bytes.extend_from_slice(&random.bytes(60));
    } else {
        let request = AttachRequest {
            project_id: known[0].clone(),
            session_id: if random.once_in(4) { String::new() } else { random.one(known).clone() },
            client_id: String::from_utf8_lossy(&random.bytes(20)).into_owned(),
            read_only: random.once_in(4),
            is_chat: random.once_in(2),
            keeps_size: random.once_in(2),
            typed: random.bytes(50),
            ..AttachRequest::default()
        };
        put(&request.encode_to_vec(), &mut bytes);
    }
    let mut connection = watchfire_api::connect(&watchfire_api::daemon_socket(home)).await.unwrap();
    let sent =
        if random.once_in(10) { Ok(0) } else { send_terminal(&connection, &bytes, theirs.as_fd()).await };
    let Ok(sent) = sent else { return };
    let talk = async {
        // It may refuse in the middle.
        let _ = connection.write_all(&bytes[sent..]).await;
        for _ in 0..random.below(8) {
            match random.below(6) {
                0 => {
                    let mut frame = BytesMut::new();
                    put(&random.bytes(40), &mut frame);
                    let _ = connection.write_all(&frame).await;
                }
                1 => drop(connection.write_all(&random.bytes(20)).await),
                2 => {
                    let side = |random: &mut Random| u16::from(random.byte()) * 5;
                    let (ws_row, ws_col) = (side(random), side(random));
                    let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
                    let _ = tcsetwinsize(&theirs, size);
                    let _ = connection.write_all(&[0; 4]).await;
                }
                3 if random.once_in(4) => ours = None,
                4 => drop(ours.as_mut().map(|ours| ours.read(&mut [0; 4096]))),
                _ => {
                    let keys = random.one(&["x", "\x1b[5~", "\x1b[200~", "\x03\x03", "\x1d", "\x1b[1;5"]);
                    drop(ours.as_mut().map(|ours| ours.write_all(keys.as_bytes())));
                }
            }
            tokio::time::sleep(Duration::from_millis(random.below(4) as u64)).await;
        }
        let _ = connection.read(&mut [0; 4096]).await;
    };
    let _ = tokio::time::timeout(Duration::from_millis(30), talk).await;
}
