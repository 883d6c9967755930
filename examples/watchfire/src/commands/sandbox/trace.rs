//! Reads what `strace --failed-only` writes: the accesses to files that failed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use watchfire_core::backend::FailedAccess;

/// Calls that change the file or folder that they name. Others do where their arguments say so.
const CHANGES: &[&str] = &[
    "bind",
    "chmod",
    "chown",
    "creat",
    "fchmodat",
    "fchownat",
    "futimesat",
    "lchown",
    "link",
    "linkat",
    "lremovexattr",
    "lsetxattr",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "setxattr",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
];

/// Words in the arguments of the others that mean a change.
const WORDS: &[&str] = &["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "W_OK"];

/// The accesses of a traced command that failed.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By path, access and absence, each with the call that it was first seen in.
    failed: BTreeMap<(PathBuf, bool, bool), String>,
    /// True if the trace shows the end of a process: it was traced.
    pub(super) is_complete: bool,
}

impl Trace {
    /// Reads a trace of a command that was started in `cwd`.
    pub(super) fn read(text: &[u8], cwd: &Path) -> Self {
        let mut trace = Self::default();
        // Calls that take no folder mean the one in which their process is, which other calls show.
        let mut folders: HashMap<&[u8], PathBuf> = HashMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let (process, rest) = line.split_at(at);
            let rest = rest.trim_ascii_start();
            if rest.starts_with(b"+++ ") {
                trace.is_complete = true;
                continue;
            }
            let Some(call) = Call::parse(rest) else { continue };
            if let Some(folder) = &call.folder {
                folders.insert(process, folder.clone());
            }
            let folder = folders.get(process).map_or(cwd, PathBuf::as_path);
            for path in &call.paths {
                let key = (folder.join(path), call.change, call.is_absent);
                trace.failed.entry(key).or_insert_with(|| call.name.to_owned());
            }
        }
        trace
    }

    /// Returns the accesses, as a program would report them.
    pub(super) fn failed(&self) -> impl Iterator<Item = FailedAccess> {
        self.failed.iter().map(|((path, change, absent), call)| {
            let path = path.display().to_string();
            FailedAccess { line: format!("{call}: {path}"), path, change: *change, absent: *absent }
        })
    }
}

/// A system call that failed because of a file.
#[derive(Debug, PartialEq)]
struct Call<'a> {
    name: &'a str,
    paths: Vec<PathBuf>,
    /// The folder of the process.
    folder: Option<PathBuf>,
    change: bool,
    is_absent: bool,
}

impl<'a> Call<'a> {
    /// Parses a line such as `openat(AT_FDCWD</home/me>, ".netrc", O_RDONLY) = -1 ENOENT (No such file or directory)`.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let at = line.windows(6).rposition(|part| part == b" = -1 ")?;
        let (call, error) = (line.get(..at)?, line.get(at + 6..)?);
        let error = error.split(|byte| *byte == b' ').next()?;
        // As a sandbox hides folders and files, and as it refuses them.
        let is_absent = match error {
            b"ENOENT" | b"ENXIO" | b"ECONNREFUSED" => true,
            b"EACCES" | b"EPERM" | b"EROFS" => false,
            _ => return None,
        };
        let open = call.iter().position(|byte| *byte == b'(')?;
        let name = std::str::from_utf8(call.get(..open)?).ok()?;
        let Arguments { mut paths, folder, words } = Arguments::scan(call.get(open + 1..)?);
        match name {
            // The target of a new link is a text.
            "symlink" | "symlinkat" => _ = paths.drain(..paths.len().saturating_sub(1)),
            // A name of an attribute follows.
            _ if name.contains("xattr") => paths.truncate(1),
            _ => {}
        }
        let says = |word: &&str| words.windows(word.len()).any(|part| part == word.as_bytes());
        let change = CHANGES.contains(&name) || WORDS.iter().any(says);
        (!paths.is_empty()).then_some(Self { name, paths, folder, change, is_absent })
    }
}

/// The arguments of a call, as far as they are about files.
#[derive(Debug, Default)]
struct Arguments {
    paths: Vec<PathBuf>,
    folder: Option<PathBuf>,
    /// The rest, without quoted text.
    words: Vec<u8>,
}

impl Arguments {
    fn scan(text: &[u8]) -> Self {
        let mut found = Self::default();
        let (mut depth, mut at) = (0_usize, 0);
        // The folder that the next path begins in.
        let mut base: Option<PathBuf> = None;
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    let (content, length) = quoted(text.get(at..).unwrap_or_default());
                    at += length;
                    // In brackets are the arguments of a program and the like, but for the address of a socket.
                    if depth == 0 || found.words.ends_with(b"sun_path=") {
                        let path = PathBuf::from(OsStr::from_bytes(&content));
                        found.paths.push(base.take().map_or(path.clone(), |base| base.join(path)));
                    }
                }
                // What a descriptor leads to.
                b'<' if depth == 0 => {
                    let rest = text.get(at..).unwrap_or_default();
                    let length = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
                    let path = rest.get(..length).filter(|path| path.starts_with(b"/"));
                    base = path.map(|path| PathBuf::from(OsStr::from_bytes(&unescaped(path))));
                    if found.words.ends_with(b"AT_FDCWD") {
                        found.folder.clone_from(&base);
                    }
                    at += length + 1;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                byte => found.words.push(*byte),
            }
        }
        found
    }
}

/// Returns the content of a string up to its closing quote, and the number of bytes that it takes.
fn quoted(text: &[u8]) -> (Vec<u8>, usize) {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    let end = end.unwrap_or(text.len());
    (unescaped(text.get(..end).unwrap_or_default()), end + 1)
}

/// Undoes the escapes of C.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escaped = rest.next().unwrap_or(b'\\');
        match escaped {
            b'0'..=b'7' => {
                let mut value = u32::from(escaped - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            }
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(0x0b),
            b'f' => bytes.push(0x0c),
            other => bytes.push(other),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let trace = Trace::read(text.as_bytes(), Path::new("/start"));
        let words = |failed: FailedAccess| {
            let access = if failed.change { "write" } else { "read" };
            let how = if failed.absent { "absent" } else { "refused" };
            format!("{access} {how} {}", failed.path)
        };
        trace.failed().map(words).collect()
    }

    #[test]
    fn calls_are_read_as_strace_writes_them() {
        for (line, expected) in [
            (
                r#"7 openat(AT_FDCWD</a>, ".netrc", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)"#,
                "read absent /a/.netrc",
            ),
            (
                r#"7 openat(AT_FDCWD</a>, "/b c", O_WRONLY|O_CREAT, 0666) = -1 EROFS (Read-only file system)"#,
                "write refused /b c",
            ),
            (
                r#"7 openat(3</a/b>, "x\"y\303\274", O_RDONLY) = -1 EACCES (Permission denied)"#,
                "read refused /a/b/x\"yü",
            ),
            (
                r#"7 newfstatat(AT_FDCWD</a>, "/b", 0x7ffd09bcd6c0, 0) = -1 ENOENT (No such file or directory)"#,
                "read absent /b",
            ),
            (r#"7 access("x", W_OK) = -1 EROFS (Read-only file system)"#, "write refused /start/x"),
            (r#"7 access("/x", R_OK) = -1 ENXIO (No such device or address)"#, "read absent /x"),
            (r#"7 mkdir("/a/.cache/x", 0777) = -1 EACCES (Permission denied)"#, "write refused /a/.cache/x"),
            (
                r#"7 symlink("../target", "/a/link") = -1 EROFS (Read-only file system)"#,
                "write refused /a/link",
            ),
            (
                r#"7 execve("/a/tool", ["/a/tool", "-x"], 0x7ffe /* 20 vars */) = -1 EACCES (Permission denied)"#,
                "read refused /a/tool",
            ),
            (
                r#"7 connect(3<UNIX-STREAM:[123]>, {sa_family=AF_UNIX, sun_path="/run/x.sock"}, 13) = -1 ECONNREFUSED (Connection refused)"#,
                "read absent /run/x.sock",
            ),
            (r#"7 getxattr("/a", "security.x", NULL, 0) = -1 EACCES (Permission denied)"#, "read refused /a"),
        ] {
            assert_eq!(read(line), [expected], "{line}");
        }
        assert_eq!(
            read(r#"7 rename("/a", "/b") = -1 EROFS (Read-only file system)"#),
            ["write refused /a", "write refused /b"]
        );
    }

    #[test]
    fn a_relative_path_begins_where_its_process_is() {
        let text = "7 openat(AT_FDCWD</a>, \"x\", O_RDONLY) = -1 ENOENT (x)\n7 readlink(\"y\", 0x1, 9) = -1 ENOENT (x)\n8 readlink(\"z\", 0x1, 9) = -1 ENOENT (x)\n";
        assert_eq!(read(text), ["read absent /a/x", "read absent /a/y", "read absent /start/z"]);
    }

    #[test]
    fn anything_else_is_left_out() {
        for line in [
            "",
            "7",
            "7 +++ exited with 1 +++",
            r#"7 mkdir("/a", 0777) = -1 EEXIST (File exists)"#,
            r#"7 openat(AT_FDCWD</a>, "x"#,
            r#"7 openat(AT_FDCWD</a>, "x\"#,
            "7 connect(3, {sa_family=AF_INET, sin_port=htons(80)}, 16) = -1 ECONNREFUSED (Connection refused)",
            "7 --- SIGCHLD {si_signo=SIGCHLD} ---",
            "7 x( = -1 ENOENT ",
        ] {
            assert_eq!(read(line), [""; 0], "{line}");
        }
        assert!(Trace::read(b"7 +++ exited with 1 +++\n", Path::new("/")).is_complete);
    }
}
