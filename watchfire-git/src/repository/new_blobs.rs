//! Writes new contents into the repository: few as loose objects, many as one pack.
//!
//! A loose object costs a file to create, link and unlink. From some hundred objects on, appending to one
//! pack is several times faster, and the person's repository does not fill with small files. No content can
//! be looked up before [`NewBlobs::finish`].

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{ObjectType, OdbLookupFlags, Oid, Repository};
use sha1::{Digest, Sha1};
use watchfire_core::{Error, Result};

use crate::error::During;
use crate::failpoint::reached;
use crate::files;
use crate::repository::new_pack::NewPack;

/// Numbers of objects and of bytes from which on they are written as one pack.
const MANY: usize = 200;
const MUCH: usize = 32 << 20;

const DURING: &str = "storing files in the repository";

/// A collector of new contents for a repository.
pub(crate) struct NewBlobs<'a> {
    repo: &'a Repository,
    /// Folder for the pack while it grows.
    scratch: PathBuf,
    seen: HashSet<Oid>,
    few: Vec<Vec<u8>>,
    bytes: usize,
    pack: Option<Growing>,
}

/// The entries of a growing pack, in a file of their own.
struct Growing {
    path: PathBuf,
    entries: BufWriter<File>,
    count: u32,
}

impl<'a> NewBlobs<'a> {
    pub(crate) fn new(repo: &'a Repository, scratch: &Path) -> Self {
        let scratch = scratch.to_path_buf();
        Self { repo, scratch, seen: HashSet::new(), few: Vec::new(), bytes: 0, pack: None }
    }

    /// Adds the content whose object id is `id`. Repeated ids are skipped.
    pub(crate) fn add(&mut self, id: Oid, content: Vec<u8>) -> Result<()> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let odb = self.repo.odb().during(DURING)?;
        // Without a refresh: looking again for packs that other processes wrote takes longer than writing the
        // object twice.
        if odb.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            // libgit2 gives the existing object a new time. A `git gc` of the person's must not remove it as
            // an old unreachable object.
            return odb.write(ObjectType::Blob, &content).map(drop).during(DURING);
        }
        if let Some(pack) = &mut self.pack {
            return pack.append(&content);
        }
        self.bytes += content.len();
        self.few.push(content);
        if self.few.len() < MANY && self.bytes < MUCH {
            return Ok(());
        }
        let mut pack = Growing::new(&self.scratch)?;
        self.few.drain(..).try_for_each(|content| pack.append(&content))?;
        self.pack = Some(pack);
        Ok(())
    }

    /// Writes everything that was added.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(pack) = self.pack else {
            let odb = self.repo.odb().during(DURING)?;
            return self
                .few
                .iter()
                .try_for_each(|content| odb.write(ObjectType::Blob, content).map(drop))
                .during(DURING);
        };
        pack.put(self.repo)
    }
}

impl Growing {
    fn new(scratch: &Path) -> Result<Self> {
        let path = scratch.join(files::unique("pack"));
        let made = fs::create_dir_all(scratch)
            .and_then(|()| File::options().read(true).write(true).create_new(true).open(&path));
        let file = made.map_err(|e| Error::io(DURING, e).with_path(&path))?;
        Ok(Self { path, entries: BufWriter::with_capacity(1 << 20, file), count: 0 })
    }

    /// Appends one entry: its type and length, then the content, deflated as in a loose object.
    fn append(&mut self, content: &[u8]) -> Result<()> {
        const BLOB: u8 = 3 << 4;
        let writing = |e| Error::io(DURING, e).with_path(&self.path);
        let mut rest = content.len();
        // The first byte has the type and four bits of the length, each further byte seven bits. The highest
        // bit says that another byte follows.
        let mut byte = BLOB | low(rest, 4);
        rest >>= 4;
        let mut head = Vec::with_capacity(10);
        while rest > 0 {
            head.push(byte | 0x80);
            byte = low(rest, 7);
            rest >>= 7;
        }
        head.push(byte);
        self.count += 1;
        self.entries.write_all(&head).map_err(writing)?;
        let mut encoder = ZlibEncoder::new(&mut self.entries, Compression::fast());
        encoder.write_all(content).and_then(|()| encoder.finish().map(drop)).map_err(writing)
    }

    /// Moves the pack and its index into the repository. libgit2 makes the index from the entries themselves.
    fn put(mut self, repo: &Repository) -> Result<()> {
        let pack = NewPack::new(self.path.parent().unwrap_or(Path::new("/")))?;
        let copied = (|| {
            self.entries.flush()?;
            let file = self.entries.get_mut();
            file.rewind()?;
            let odb = repo.odb().map_err(io::Error::other)?;
            let mut indexer =
                git2::Indexer::new(Some(&odb), pack.folder(), 0o444, false).map_err(io::Error::other)?;
            // Only now: the header of a pack has the number of its entries.
            let mut digest = Sha1::new();
            let header = [&b"PACK"[..], &2_u32.to_be_bytes(), &self.count.to_be_bytes()].concat();
            digest.update(&header);
            indexer.write_all(&header)?;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let read = file.read(&mut buffer)?;
                let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
                digest.update(part);
                indexer.write_all(part)?;
                reached("pack: growing");
            }
            // A pack ends with the SHA-1 of everything before.
            indexer.write_all(&digest.finalize())?;
            indexer.commit().map_err(io::Error::other)
        })();
        copied.map_err(|e| Error::io(DURING, e).with_path(pack.folder()))?;
        pack.put(repo)
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        // Also after an error: only the copy in the repository counts.
        _ = fs::remove_file(&self.path);
    }
}

/// Returns the lowest `bits` of `number`, at most seven.
fn low(number: usize, bits: u32) -> u8 {
    (number & ((1 << bits) - 1)) as u8
}
