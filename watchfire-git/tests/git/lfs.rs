//! Large files of git-lfs, with a server in the test.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use watchfire_core::workspace::{ObstacleKind, PublishRequest, Published, Workspace};
use watchfire_git::{GitOptions, GitWorkspace};

use crate::support::Repo;
use crate::support::steps::{candidate, capture, open_isolated, publish};

type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Serves the batch interface of git-lfs, and the objects. Returns its address.
fn serve(objects: Objects) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let own = url.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (objects, url) = (Arc::clone(&objects), own.clone());
            std::thread::spawn(move || answer(&connection, &objects, &url));
        }
    });
    url
}

/// Answers one request. Returns nothing if the other side has gone.
fn answer(connection: &TcpStream, objects: &Objects, url: &str) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (mut length, mut header) = (0, String::new());
    while reader.read_line(&mut header).ok()? > 2 {
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        header.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = line.split(' ').nth(1)?;
    let answer = match (line.split(' ').next()?, path.strip_prefix("/objects/")?) {
        ("POST", "batch") => {
            let body = String::from_utf8_lossy(&body).into_owned();
            let action = if body.contains("\"upload\"") { "upload" } else { "download" };
            // Ids have 64 digits, and nothing else of a request has.
            let ids = body.split('"').filter(|it| it.len() == 64);
            let known = objects.lock().unwrap();
            let objects = ids.map(|id| {
                let size = body.split(id).nth(1).and_then(|rest| rest.split("size\":").nth(1));
                let size: String = size.unwrap_or("0").chars().take_while(char::is_ascii_digit).collect();
                let actions = match action == "upload" && known.contains_key(id) {
                    true => String::new(),
                    false => format!(r#","actions":{{"{action}":{{"href":"{url}/objects/{id}"}}}}"#),
                };
                format!(r#"{{"oid":"{id}","size":{size}{actions}}}"#)
            });
            let objects: Vec<_> = objects.collect();
            format!(r#"{{"transfer":"basic","objects":[{}]}}"#, objects.join(",")).into_bytes()
        }
        ("PUT", id) => {
            objects.lock().unwrap().insert(id.to_owned(), body);
            Vec::new()
        }
        (_, id) => objects.lock().unwrap().get(id)?.clone(),
    };
    let kind =
        if path.ends_with("batch") { "application/vnd.git-lfs+json" } else { "application/octet-stream" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    let mut connection = connection;
    connection.write_all(&[head.as_bytes(), &answer].concat()).ok()
}

#[tokio::test]
async fn large_files_are_fetched_once_their_filter_is_allowed() {
    let lfs = crate::support::run(std::path::Path::new("/"), ["lfs", "version"]);
    if !lfs.status.success() {
        eprintln!("SKIPPED: git-lfs is not available here");
        return;
    }
    let objects = Objects::default();
    let url = serve(Arc::clone(&objects));
    let set_up = |repo: &Repo| {
        repo.git(["config", "lfs.url", &url]);
        repo.git(["config", "lfs.locksverify", "false"]);
        repo.git(["lfs", "install", "--local", "--skip-repo"]);
    };
    // Another person has made both versions, and pushed them.
    let other = Repo::named("other");
    set_up(&other);
    other.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    other.write(".gitignore", ".watchfire/\n");
    other.write("large.bin", "first version");
    other.commit("first");
    other.write("large.bin", "second version");
    other.commit("second");
    other.git(["init", "-q", "--bare", "../remote.git"]);
    other.git(["remote", "add", "origin", "../remote.git"]);
    other.git(["lfs", "push", "--all", "origin"]);
    assert_eq!(objects.lock().unwrap().len(), 2);
    let pointer = other.git(["show", "main:large.bin"]);

    let repo = Repo::named("project");
    set_up(&repo);
    repo.git(["fetch", "-q", other.root.to_str().unwrap(), "main"]);
    repo.git(["reset", "-q", "--hard", "FETCH_HEAD~1"]);
    assert_eq!(repo.read("large.bin"), "first version");
    // An index that is as old as its files tells nothing about them.
    let file = fs::File::options().write(true).open(repo.root.join("large.bin")).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).unwrap();
    repo.git(["status"]);

    let workspace = repo.workspace();
    let opened = open_isolated(&workspace, 1).await;
    // An agent has pointers, and works with them.
    let large = opened.cwd.join("large.bin");
    assert!(fs::read_to_string(&large).unwrap().starts_with("version https://git-lfs"));
    fs::write(&large, &pointer).unwrap();
    capture(&workspace, 1).await;
    let Published::Held(obstacle) = publish(&workspace, 1).await else { panic!("not held") };
    assert_eq!(obstacle.kind, ObstacleKind::FilterNotAllowed);
    assert!(obstacle.message.contains("lfs"), "{obstacle:?}");
    assert_eq!(repo.read("large.bin"), "first version");

    let allowed = GitWorkspace::open(&repo.root, GitOptions::default().with_filters(["lfs"])).unwrap();
    let candidate = candidate(&allowed, 1).await;
    let published = allowed.publish(&candidate, &PublishRequest::default()).await.unwrap();
    assert!(matches!(published, Published::Done { .. }), "{published:?}");
    assert_eq!(repo.read("large.bin"), "second version");
    assert_eq!(repo.git(["show", "main:large.bin"]), pointer);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    repo.fsck();
}
