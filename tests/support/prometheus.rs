//! A Prometheus for one scenario.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::controller::spawn_in_lasting_thread;
use super::wait::{RECOVERY, eventually};

/// Ends when it is dropped, and in any case with the test binary.
pub struct Prometheus {
    child: Child,
    folder: PathBuf,
    url: String,
    http: reqwest::Client,
}

impl Prometheus {
    /// Starts one that scrapes these jobs, and evaluates these rules, every second.
    pub async fn start(jobs: &Value, rules: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(super::unique("prometheus"));
        fs::create_dir_all(&folder).expect("a folder of the tests can be made");
        // JSON is YAML.
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": jobs,
        });
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file can be written");
        write("prometheus.yaml", &config.to_string());
        write("rules.yaml", rules);
        let log = folder.join("log");
        let output = File::create(&log).expect("a file can be made");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "prometheus", "--config.file=prometheus.yaml"]);
        command.args(["--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]);
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a file can be opened twice")).stderr(output);
        let child = spawn_in_lasting_thread(command)
            .unwrap_or_else(|error| panic!("setpriv (util-linux) cannot start Prometheus: {error}"));
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        // Dropped, and so ended, when it never says where it listens.
        let mut started = Self { child, folder, url: String::new(), http };
        started.url = eventually(RECOVERY, async || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let line = text.lines().find(|line| line.contains(r#"msg="Listening on""#));
            let address = line.and_then(|line| line.split("address=").nth(1));
            address.map(|address| format!("http://{address}")).ok_or(format!("Prometheus does not listen:\n{text}"))
        })
        .await;
        started
    }

    /// The results of an instant query; an error where it is none.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let answer = self.get("query", &[("query", query)]).await?;
        Ok(answer["result"].as_array().expect("a query of series has a list of results").clone())
    }

    pub async fn metric_names(&self) -> BTreeSet<String> {
        let names = self.get("label/__name__/values", &[]).await.expect("it answers");
        names.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Its rules, with the outcome of their last evaluation.
    pub async fn rules(&self) -> Vec<Value> {
        let rules = self.get("rules", &[]).await.expect("it answers");
        rules["groups"][0]["rules"].as_array().expect("it has rules").clone()
    }

    async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let url = url::Url::parse_with_params(&format!("{}/api/v1/{path}", self.url), parameters);
        let answer = self.http.get(url.expect("it is a URL")).send().await.map_err(|error| error.to_string())?;
        let mut answer: Value = answer.json().await.map_err(|error| error.to_string())?;
        if answer["status"] == "success" { Ok(answer["data"].take()) } else { Err(answer.to_string()) }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Errors mean that it has ended already, or that its data are gone.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
        let _gone = fs::remove_dir_all(&self.folder);
    }
}
