//! Objects that must not be touched: paused ones, and those that clusterctl is moving away.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names::{DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION};

/// Why an object must not be touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandsOff {
    /// clusterctl is moving it away. Its deletion means nothing, and not even a status is written: clusterctl replaces all
    /// annotations of such an object, so others may be missing.
    Moving,
    Paused,
}

impl HandsOff {
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        let has = |key: &str| meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key));
        match () {
            () if has(DELETE_FOR_MOVE_ANNOTATION) => Some(Self::Moving),
            () if has(PAUSED_ANNOTATION) => Some(Self::Paused),
            () => None,
        }
    }
}
