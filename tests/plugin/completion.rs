//! kubectl completes `kubectl fippool` with what the plugin answers.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::support::{pool, unique, with_namespace};

/// A folder with the plugin and the script that a release has beside it.
fn installed() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("plugins"));
    std::fs::create_dir_all(&folder).expect("it can be created");
    symlink(env!("CARGO_BIN_EXE_kubectl-fippool"), folder.join("kubectl-fippool")).expect("a link");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/krew/kubectl_complete-fippool");
    symlink(script, folder.join("kubectl_complete-fippool")).expect("a link");
    folder
}

#[tokio::test]
async fn kubectl_completes_commands_and_the_pools_of_the_namespace() {
    with_namespace(async |ns| {
        ns.create(pool("public").network("public")).await;
        ns.create(pool("edge").network("public")).await;
        let folder = installed();
        let path = std::env::var("PATH").expect("there are programs");
        let completed = |words: &[&str]| {
            let mut kubectl = Command::new("kubectl");
            kubectl.args(["__complete", "fippool"]).args(words).stdin(Stdio::null());
            kubectl.env("KUBECONFIG", &ns.world.kubeconfig).env("PATH", format!("{}:{path}", folder.display()));
            let output = kubectl.output().expect("kubectl runs");
            String::from_utf8(output.stdout).expect("it prints UTF-8")
        };
        assert_eq!(completed(&["usage", "-n", &ns.name, ""]), "edge\npublic\n:4\n");
        assert_eq!(completed(&["usage", "-n", &ns.name, "p"]), "public\n:4\n");
        assert!(completed(&["who"]).starts_with("who-has\tFind the holder of an address"));
        assert_eq!(completed(&["list", "-n", &ns.name[..ns.name.len() - 1]]), format!("{}\n:4\n", ns.name));
        std::fs::remove_dir_all(folder).expect("it can be removed");
    })
    .await;
}
