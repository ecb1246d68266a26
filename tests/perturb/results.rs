//! What is known of the plans, in `target/perturb`: a run that was interrupted goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::run::{Outcome, Reference};
use super::trace::hash;
use super::workloads::Workload;

/// One line of `results.jsonl`.
#[derive(Clone, Serialize, Deserialize)]
struct Line {
    /// Identifies the controller, these tests, and the undisturbed run of the workload.
    key: String,
    plan: String,
    seconds: u64,
    outcome: Outcome,
}

pub struct Store {
    folder: PathBuf,
    /// A digest of the controller and of these tests.
    program: String,
}

impl Store {
    pub fn open() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory");
        let folder = target.join("perturb");
        fs::create_dir_all(&folder).expect("a folder of the tests can be made");
        let tests = std::env::current_exe().expect("the program has a path");
        let programs = [PathBuf::from(env!("CARGO_BIN_EXE_caip-openstack")), tests];
        let digests = programs.map(|path| hash(&fs::read(path).expect("a program can be read")));
        Self { folder, program: hash(digests.concat().as_bytes()) }
    }

    fn reference_path(&self, workload: Workload) -> PathBuf {
        self.folder.join(format!("{}-{}.json", workload.name(), self.program))
    }

    /// The undisturbed run of a workload, if one was recorded with these programs.
    pub fn reference(&self, workload: Workload) -> Option<Reference> {
        let text = fs::read(self.reference_path(workload)).ok()?;
        Some(serde_json::from_slice(&text).expect("it was written by this program"))
    }

    /// Keeps an undisturbed run; returns the one that another shard kept before.
    pub fn keep_reference(&self, workload: Workload, reference: &Reference) -> Reference {
        let path = self.reference_path(workload);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&new, serde_json::to_vec(reference).expect("it is JSON")).expect("a file can be written");
        // Unlike a rename, this fails where the file is there.
        let _kept_before = fs::hard_link(&new, &path);
        fs::remove_file(&new).expect("it was written");
        self.reference(workload).expect("it was written")
    }

    fn key(&self, workload: Workload) -> String {
        let reference = fs::read(self.reference_path(workload)).unwrap_or_default();
        hash([self.program.as_bytes(), &reference].concat().as_slice())
    }

    /// The outcomes of a workload's plans, with the seconds that they took.
    pub fn outcomes(&self, workload: Workload) -> BTreeMap<String, (Outcome, u64)> {
        let key = self.key(workload);
        let text = fs::read_to_string(self.folder.join("results.jsonl")).unwrap_or_default();
        // The last line may have been cut off.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        lines.filter(|line| line.key == key).map(|line| (line.plan, (line.outcome, line.seconds))).collect()
    }

    pub fn add(&self, workload: Workload, plan: &str, outcome: &Outcome, seconds: u64) {
        let line = Line { key: self.key(workload), plan: plan.to_owned(), seconds, outcome: outcome.clone() };
        let text = format!("{}\n", serde_json::to_string(&line).expect("it is JSON"));
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join("results.jsonl"));
        // In one write, since other shards write too.
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file can be written");
    }
}
