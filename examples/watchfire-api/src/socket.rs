//! The sockets of running programs: one for each project, in a private folder of the home.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use watchfire_core::model::ProjectId;

/// Name of the folder in the home. No agent can reach the home.
const FOLDER: &str = "api";
const ENDING: &str = "sock";
const DAEMON: &str = "daemon.sock";

/// Makes the socket of a project. The caller has the project open, so a socket that is there was left by a program that
/// has ended. It takes connections of our own user only.
///
/// # Errors
/// I/O errors.
pub fn listen(home: &Path, project: &ProjectId) -> io::Result<UnixListener> {
    listen_as(home, &format!("{project}.{ENDING}"))
}

/// Makes the socket of the daemon, which is for all projects. The caller holds the daemon's lock.
///
/// # Errors
/// I/O errors.
pub fn listen_as_daemon(home: &Path) -> io::Result<UnixListener> {
    listen_as(home, DAEMON)
}

/// Returns the path of the daemon's socket.
#[must_use]
pub fn daemon_socket(home: &Path) -> PathBuf {
    home.join(FOLDER).join(DAEMON)
}

fn listen_as(home: &Path, name: &str) -> io::Result<UnixListener> {
    let folder = home.join(FOLDER);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let path = folder.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (short, _folder) = short(&folder, name)?;
    let listener = UnixListener::bind(short)?;
    // The folder keeps others out in the moment before this.
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns the sockets of a home, including the ones on which no program listens any more.
///
/// # Errors
/// I/O errors.
pub fn sockets(home: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(home.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == ENDING)).collect())
}

/// Connects to a socket.
///
/// # Errors
/// I/O errors; `ConnectionRefused` if nobody listens on it.
pub async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (short, _folder) = short(folder, &name.to_string_lossy())?;
    UnixStream::connect(short).await
}

/// Returns a short path to the socket `name`: the kernel limits paths of sockets to about 100 bytes, and a home may lie
/// deep. The path is valid as long as the returned folder stays open.
fn short(folder: &Path, name: &str) -> io::Result<(PathBuf, fs::File)> {
    use std::os::fd::AsRawFd as _;
    let open = fs::File::open(folder)?;
    let path = if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()))
    } else {
        folder.join(name)
    };
    Ok((path, open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_home_may_lie_deep_and_a_socket_may_be_left() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().join("d".repeat(200));
        let project: ProjectId = "eb3a5ff7-55cb-4650-b0f6-bc038ca571c4".parse().unwrap();
        assert!(sockets(&home).unwrap().is_empty());
        drop(listen(&home, &project).unwrap());
        let [socket] = &sockets(&home).unwrap()[..] else { panic!("one socket") };
        assert_eq!(connect(socket).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _again = listen(&home, &project).unwrap();
        connect(socket).await.unwrap();
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(home.join(FOLDER)).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
