//! How a pool names its network and subnets: an id, or a filter with the fields that CAPO's templates use.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pool_schema as schema;

/// A network: its id, or a filter that exactly one external network matches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.filter)").message("name the network by exactly one of id and filter"))]
pub struct NetworkParam {
    /// The network's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub id: Option<String>,
    /// What the network must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<NetworkFilter>,
}

/// What a network must match: every field that is given.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) || has(self.description) || has(self.projectID) || has(self.tags) || has(self.tagsAny) || has(self.notTags) || has(self.notTagsAny)").message("filter must have at least one field"))]
pub struct NetworkFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// Its exact description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The id of the project that owns it.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub project_id: Option<String>,
    /// It must have all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// It must have any of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags_any: Vec<String>,
    /// It must not have all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags: Vec<String>,
    /// It must have none of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags_any: Vec<String>,
}

/// A subnet: its id, or a filter that exactly one subnet of the network matches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.filter)").message("name the subnet by exactly one of id and filter"))]
pub struct SubnetParam {
    /// The subnet's id. Needed where the project may not list external subnets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub id: Option<String>,
    /// What the subnet must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<SubnetFilter>,
}

/// What a subnet must match: every field that is given.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) || has(self.description) || has(self.projectID) || has(self.cidr) || has(self.ipVersion) || has(self.tags) || has(self.tagsAny) || has(self.notTags) || has(self.notTagsAny)").message("filter must have at least one field"))]
pub struct SubnetFilter {
    /// Its exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// Its exact description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The id of the project that owns it.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub project_id: Option<String>,
    /// Its exact range, as Neutron writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 43))]
    pub cidr: Option<String>,
    /// 4 or 6.
    #[serde(default, rename = "ipVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ip_version")]
    pub ip_version: Option<u8>,
    /// It must have all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// It must have any of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags_any: Vec<String>,
    /// It must not have all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags: Vec<String>,
    /// It must have none of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags_any: Vec<String>,
}
