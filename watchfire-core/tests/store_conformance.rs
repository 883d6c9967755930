//! The conformance suite of task stores, against the ones of this crate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use watchfire_core::Result;
use watchfire_core::clock::SystemClock;
use watchfire_core::conformance::Suites;
use watchfire_core::model::{Project, ProjectId};
use watchfire_core::store::conformance::{CASES, StoreFactory};
use watchfire_core::store::{Home, MemoryStore, NewProject, TaskStore, YamlOptions, YamlStore};

struct Memory;

#[async_trait]
impl StoreFactory for Memory {
    async fn fresh(&self) -> Result<(Arc<dyn TaskStore>, Arc<dyn TaskStore>)> {
        let project = Project::new(ProjectId::random(), "p");
        let store: Arc<dyn TaskStore> = Arc::new(MemoryStore::new(project, Arc::new(SystemClock)));
        Ok((Arc::clone(&store), store))
    }
}

struct Yaml {
    watch: bool,
    poll: Duration,
    kept: Mutex<Vec<tempfile::TempDir>>,
}

#[async_trait]
impl StoreFactory for Yaml {
    async fn fresh(&self) -> Result<(Arc<dyn TaskStore>, Arc<dyn TaskStore>)> {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a 'project' – проект");
        std::fs::create_dir(&root).unwrap();
        let home = Home::open(dir.path().join("home"), Arc::new(SystemClock)).await?;
        let project = home.init_project(&root, NewProject::new()).await?;
        let options = YamlOptions::new(home.state_dir(&project.project_id))
            .with_watch(self.watch)
            .with_poll(self.poll)
            .with_debounce(Duration::from_millis(5));
        let one = YamlStore::open(&root, Arc::new(SystemClock), options.clone()).await?;
        let other = YamlStore::open(&root, Arc::new(SystemClock), options).await?;
        self.kept.lock().unwrap().push(dir);
        Ok((Arc::new(one), Arc::new(other)))
    }
}

fn main() {
    let yaml = |watch, poll| {
        move || -> Box<dyn StoreFactory> { Box::new(Yaml { watch, poll, kept: Mutex::default() }) }
    };
    let (slow, quick) = (Duration::from_secs(86_400), Duration::from_millis(20));
    Suites::new()
        .with("memory", CASES, || Box::new(Memory))
        .with("yaml_by_events_alone", CASES, yaml(true, slow))
        .with("yaml_by_polling_alone", CASES, yaml(false, quick))
        .run()
}
