//! The user's own `clouds.yaml`, found where openstacksdk finds it
//! (<https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html>), and read as a Secret's is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::openstack::Credentials;
use crate::openstack::credentials::{CACERT, CLOUDS_YAML};
use crate::plugin::exit::Failure;

pub(super) fn read_credentials(cloud: &str) -> Result<Credentials, Failure> {
    let path = find_clouds_yaml()?;
    let text = read_text(&path)?;
    let secure = path.with_file_name("secure.yaml");
    let secrets = secure.exists().then(|| read_text(&secure)).transpose()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let data = as_secret(&text, secrets.as_deref(), cloud, |file| {
        let file = folder.join(file);
        std::fs::read(&file).map_err(|error| format!("the cacert file {} cannot be read: {error}", file.display()))
    });
    let data = data.map_err(|problem| Failure::Usage(format!("{}: {problem}", path.display())))?;
    Credentials::from_secret(&data, cloud, None)
        .map_err(|error| Failure::Usage(format!("--os-cloud {cloud}, {}: {error}", path.display())))
}

fn find_clouds_yaml() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os("OS_CLIENT_CONFIG_FILE").filter(|name| !name.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let home = std::env::home_dir().map(|home| home.join(".config/openstack"));
    let folders = [Some(PathBuf::from(".")), home, Some(PathBuf::from("/etc/openstack"))];
    let files = folders.into_iter().flatten().map(|folder| folder.join("clouds.yaml"));
    files.into_iter().find(|file| file.exists()).ok_or_else(|| {
        let places = "OS_CLIENT_CONFIG_FILE, ./clouds.yaml, ~/.config/openstack, /etc/openstack";
        Failure::Usage(format!("--os-cloud needs a clouds.yaml, but none was found ({places})"))
    })
}

fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", path.display())))
}

/// The content of the Secret that a pool would use for this cloud: `secure.yaml` merged in, and the CA certificate read.
fn as_secret(
    clouds: &str,
    secure: Option<&str>,
    cloud: &str,
    read: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<BTreeMap<String, ByteString>, String> {
    // The parser's own message would quote the file, which holds a password.
    let parse = |text: &str, name| {
        serde_saphyr::from_str_with_options::<Value>(text, serde_saphyr::options! { with_snippet: false })
            .map_err(|_| format!("{name} is not YAML"))
    };
    let mut file = parse(clouds, "the file")?;
    if let Some(secure) = secure {
        merge_into(&mut file, parse(secure, "secure.yaml beside it")?);
    }
    let mut data = BTreeMap::new();
    let entry = file.pointer_mut("/clouds").and_then(|clouds| clouds.get_mut(cloud)).and_then(Value::as_object_mut);
    if let Some(Value::String(ca)) = entry.and_then(|entry| entry.remove("cacert"))
        && !ca.is_empty()
    {
        data.insert(CACERT.to_owned(), ByteString(read(&ca)?));
    }
    let clouds = json!({"clouds": file.get("clouds")}).to_string();
    data.insert(CLOUDS_YAML.to_owned(), ByteString(clouds.into_bytes()));
    Ok(data)
}

fn merge_into(target: &mut Value, source: Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            source.into_iter().for_each(|(key, value)| merge_into(target.entry(key).or_insert(Value::Null), value));
        }
        (target, source) => *target = source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUDS: &str = "clouds: {mine: {auth: {auth_url: 'https://k/v3', username: u}, cacert: ca.pem}, other: {}}";

    #[test]
    fn the_ca_comes_from_the_file_that_is_named() {
        let data = as_secret(CLOUDS, None, "mine", |file| Ok(format!("read {file}").into_bytes())).unwrap();
        assert_eq!(data[CACERT].0, b"read ca.pem");
        let clouds: Value = serde_json::from_slice(&data[CLOUDS_YAML].0).unwrap();
        assert_eq!(clouds["clouds"]["mine"], json!({"auth": {"auth_url": "https://k/v3", "username": "u"}}));
        assert!(clouds["clouds"]["other"].is_object());
    }

    #[test]
    fn secure_yaml_adds_what_is_secret() {
        let secure = "clouds: {mine: {auth: {password: p}}}";
        let data = as_secret(CLOUDS, Some(secure), "mine", |_| Ok(vec![])).unwrap();
        let clouds: Value = serde_json::from_slice(&data[CLOUDS_YAML].0).unwrap();
        assert_eq!(clouds["clouds"]["mine"]["auth"]["password"], "p");
        assert_eq!(clouds["clouds"]["mine"]["auth"]["username"], "u");
    }

    #[test]
    fn what_cannot_be_read_is_named_without_what_is_in_it() {
        let error = as_secret("clouds: {mine: [hidden", None, "mine", |_| Ok(vec![])).unwrap_err();
        assert!(!error.contains("hidden"), "{error}");
        let error = as_secret(CLOUDS, None, "mine", |file| Err(format!("no {file}"))).unwrap_err();
        assert_eq!(error, "no ca.pem");
    }
}
