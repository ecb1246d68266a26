//! Kubeconfigs that differ in one place from another one.

use std::path::Path;

use serde_json::Value;

/// A kubeconfig, read from its file.
pub fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(path).expect("the kubeconfig can be read");
    serde_saphyr::from_str(&text).expect("the kubeconfig is YAML")
}

/// Writes the kubeconfig `original` with another value at `pointer`. Returns the path of the file `NAME.kubeconfig`.
pub fn write_changed(original: &str, name: &str, pointer: &str, value: Value) -> String {
    let mut kubeconfig = read(original);
    *kubeconfig.pointer_mut(pointer).unwrap_or_else(|| panic!("the kubeconfig has no {pointer}")) = value;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kubeconfig"));
    // JSON is YAML.
    std::fs::write(&path, kubeconfig.to_string()).expect("a file can be written");
    path.into_os_string().into_string().expect("a directory of the tests has a name in UTF-8")
}
