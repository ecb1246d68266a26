//! The kubeconfig, with the flags that kubectl has for it.

use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use crate::plugin::cli::Global;
use crate::plugin::exit::Failure;
use crate::runtime::client::WATCH_TIMEOUT_SECONDS;
use crate::runtime::telemetry::chain;

/// Short, since a person is waiting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the kubeconfig that the flags name, and sends no request.
pub(super) async fn read_config(global: &Global) -> Result<Config, Failure> {
    let kubeconfig = read_kubeconfig(global)?;
    check_names(global, &kubeconfig).map_err(|problem| unusable(global, &problem))?;
    let options = KubeConfigOptions {
        context: global.context.clone(),
        cluster: global.cluster.clone(),
        user: global.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(global, &chain(&error)))?;
    override_config(&mut config, global)?;
    Ok(config)
}

/// The one of `--kubeconfig`, or else those of `KUBECONFIG`, or else `~/.kube/config`.
pub(in crate::plugin) fn read_kubeconfig(global: &Global) -> Result<Kubeconfig, Failure> {
    let kubeconfig = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    kubeconfig.map_err(|error| unusable(global, &chain(&error)))
}

fn unusable(global: &Global, problem: &str) -> Failure {
    let path = global.kubeconfig.clone().or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from));
    let path = path.map_or("~/.kube/config".into(), |path| path.display().to_string());
    Failure::Request(format!("use the kubeconfig {path} (--kubeconfig, KUBECONFIG): {problem}"))
}

/// kube would go on without credentials if there is no such user, and names no flag.
fn check_names(global: &Global, kubeconfig: &Kubeconfig) -> Result<(), String> {
    let contexts = kubeconfig.contexts.iter().map(|context| &context.name);
    let clusters = kubeconfig.clusters.iter().map(|cluster| &cluster.name);
    let users = kubeconfig.auth_infos.iter().map(|user| &user.name);
    exists("context", global.context.as_ref(), contexts)?;
    exists("cluster", global.cluster.as_ref(), clusters)?;
    exists("user", global.user.as_ref(), users)
}

fn exists<'a>(flag: &str, wanted: Option<&String>, mut names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    match wanted {
        Some(wanted) if !names.any(|name| name == wanted) => Err(format!("it has no {flag} {wanted} (--{flag})")),
        _ => Ok(()),
    }
}

fn override_config(config: &mut Config, global: &Global) -> Result<(), Failure> {
    if let Some(url) = &global.server {
        if url.scheme().is_none() || url.host().is_none() {
            return Err(Failure::Usage(format!("--server {url} is not a URL such as https://192.0.2.1:6443")));
        }
        config.cluster_url = url.clone();
    }
    if let Some(token) = &global.token {
        // Instead of all credentials: the API server would prefer a client certificate to the token.
        let AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, .. } =
            std::mem::take(&mut config.auth_info);
        let impersonation = AuthInfo {
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_user_extra,
            ..AuthInfo::default()
        };
        config.auth_info = AuthInfo { token: Some(token.clone()), ..impersonation };
    }
    impersonate(&mut config.auth_info, global)?;
    let limit = |limit: Duration| Some(limit).filter(|limit| !limit.is_zero());
    (config.connect_timeout, config.read_timeout) = match global.request_timeout {
        Some(timeout) => (limit(timeout.min(CONNECT_TIMEOUT)), limit(timeout)),
        None => (Some(CONNECT_TIMEOUT), Some(READ_TIMEOUT)),
    };
    // Otherwise the time for which a connection was idle would count.
    config.reset_reader_on_write = true;
    Ok(())
}

/// Shorter than the read timeout.
pub(super) fn watch_seconds(request_timeout: Option<Duration>) -> u32 {
    match request_timeout {
        Some(timeout) if !timeout.is_zero() => {
            let seconds = timeout.as_secs().saturating_sub(1).max(1);
            u32::try_from(seconds).unwrap_or(WATCH_TIMEOUT_SECONDS).min(WATCH_TIMEOUT_SECONDS)
        }
        _ => WATCH_TIMEOUT_SECONDS,
    }
}

fn impersonate(auth: &mut AuthInfo, global: &Global) -> Result<(), Failure> {
    if let Some(user) = &global.as_user {
        // The kubeconfig's groups are those of another user.
        (auth.impersonate_groups, auth.impersonate_uid, auth.impersonate_user_extra) = (None, None, None);
        auth.impersonate = Some(user.clone());
    }
    let flag = match (global.as_group.is_empty(), &global.as_uid) {
        (false, _) => "--as-group",
        (true, Some(_)) => "--as-uid",
        (true, None) => return Ok(()),
    };
    if auth.impersonate.is_none() {
        return Err(Failure::Usage(format!("{flag} needs --as, the user to impersonate")));
    }
    if !global.as_group.is_empty() {
        auth.impersonate_groups = Some(global.as_group.clone());
    }
    if global.as_uid.is_some() {
        auth.impersonate_uid.clone_from(&global.as_uid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use secrecy::ExposeSecret;

    use super::*;
    use crate::plugin::cli::Cli;

    const KUBECONFIG: &str = r#"
        clusters:
        - {name: one, cluster: {server: "https://one:6443"}}
        - {name: two, cluster: {server: "https://two:6443"}}
        contexts:
        - {name: here, context: {cluster: one, user: me, namespace: team}}
        users:
        - {name: me, user: {client-certificate-data: Yw==, client-key-data: aw==}}
        - {name: other, user: {token: others, as: someone, as-groups: [g]}}
        current-context: here
    "#;

    fn global(flags: &[&str]) -> Global {
        Cli::try_parse_from([&["x", "usage"], flags].concat()).unwrap().global
    }

    async fn config(flags: &[&str]) -> Result<Config, String> {
        let file = tempfile(KUBECONFIG);
        let mut global = global(flags);
        global.kubeconfig = Some(file.clone());
        let config = read_config(&global).await.map_err(|failure| failure.to_string());
        std::fs::remove_file(file).unwrap();
        config
    }

    fn tempfile(text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("kubeconfig-{:016x}", fastrand::u64(..)));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn cluster_user_and_server_replace_those_of_the_context() {
        let url = async |flags: &[&str]| config(flags).await.unwrap().cluster_url.to_string();
        assert_eq!(url(&[]).await, "https://one:6443/");
        assert_eq!(url(&["--cluster", "two"]).await, "https://two:6443/");
        assert_eq!(url(&["-s", "https://192.0.2.1:6443"]).await, "https://192.0.2.1:6443/");
        let auth = config(&["--user", "other"]).await.unwrap().auth_info;
        assert_eq!((auth.token.unwrap().expose_secret(), auth.impersonate.as_deref()), ("others", Some("someone")));
        assert_eq!(config(&["--user", "other"]).await.unwrap().default_namespace, "team");
    }

    #[tokio::test]
    async fn a_token_replaces_the_credentials() {
        let auth = config(&["--token", "mine"]).await.unwrap().auth_info;
        assert_eq!(auth.token.unwrap().expose_secret(), "mine");
        assert_eq!(auth.client_certificate_data, None);
        let auth = config(&["--user", "other", "--token", "mine"]).await.unwrap().auth_info;
        assert_eq!(auth.impersonate.as_deref(), Some("someone"), "the impersonation stays");
    }

    #[tokio::test]
    async fn who_is_impersonated_is_the_flags_choice() {
        let flags = ["--as", "jane", "--as-group", "a", "--as-group", "b", "--as-uid", "u"];
        let auth = config(&flags).await.unwrap().auth_info;
        assert_eq!((auth.impersonate.as_deref(), auth.impersonate_uid.as_deref()), (Some("jane"), Some("u")));
        assert_eq!(auth.impersonate_groups, Some(vec!["a".into(), "b".into()]));
        let auth = config(&["--user", "other", "--as", "jane"]).await.unwrap().auth_info;
        assert_eq!(
            (auth.impersonate.as_deref(), auth.impersonate_groups),
            (Some("jane"), None),
            "not another's groups"
        );
    }

    #[tokio::test]
    async fn what_the_kubeconfig_does_not_have_names_the_flag() {
        for flag in ["context", "cluster", "user"] {
            let error = config(&[&format!("--{flag}"), "nowhere"]).await.unwrap_err();
            assert!(error.contains(&format!("it has no {flag} nowhere (--{flag})")), "{error}");
        }
        assert!(config(&["--as-group", "a"]).await.unwrap_err().contains("--as-group needs --as"));
        assert!(config(&["--as-uid", "a"]).await.unwrap_err().contains("--as-uid needs --as"));
        assert!(config(&["--server", "host"]).await.unwrap_err().contains("--server host"));
    }

    #[tokio::test]
    async fn a_request_timeout_of_zero_is_none() {
        let timeouts = async |flags: &[&str]| {
            let config = config(flags).await.unwrap();
            (config.connect_timeout, config.read_timeout)
        };
        let seconds = Duration::from_secs;
        assert_eq!(timeouts(&[]).await, (Some(seconds(10)), Some(seconds(60))));
        assert_eq!(timeouts(&["--request-timeout", "3s"]).await, (Some(seconds(3)), Some(seconds(3))));
        assert_eq!(timeouts(&["--request-timeout", "5m"]).await, (Some(seconds(10)), Some(seconds(300))));
        assert_eq!(timeouts(&["--request-timeout", "0"]).await, (None, None));
        let watch = |seconds_: u64| watch_seconds(Some(seconds(seconds_)));
        assert_eq!([0, 1, 30, 300].map(watch), [40, 1, 29, 40]);
        assert_eq!(watch_seconds(None), 40);
    }
}
