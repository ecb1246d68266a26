//! References to a network and to subnets: an ID, or a filter with the fields of CAPO's templates. The doc comments are
//! the CRD's descriptions.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pool_schema as schema;

/// A network: its ID, or a filter that must match exactly one external network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.filter)").message("name the network by exactly one of id and filter"))]
pub struct NetworkParam {
    /// The network's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub id: Option<String>,
    /// Selects the network by its properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<NetworkFilter>,
}

/// A network matches if all given fields match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) || has(self.description) || has(self.projectID) || has(self.tags) || has(self.tagsAny) || has(self.notTags) || has(self.notTagsAny)").message("filter must have at least one field"))]
pub struct NetworkFilter {
    /// The exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// The exact description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The ID of the owning project.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub project_id: Option<String>,
    /// Matches if all of these tags are present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Matches if any of these tags is present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags_any: Vec<String>,
    /// Excludes a match that has all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags: Vec<String>,
    /// Excludes a match that has any of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags_any: Vec<String>,
}

/// A subnet: its ID, or a filter that must match exactly one subnet of the network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.id) != has(self.filter)").message("name the subnet by exactly one of id and filter"))]
pub struct SubnetParam {
    /// The subnet's ID. Required if the project may not list external subnets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uuid")]
    pub id: Option<String>,
    /// Selects the subnet by its properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<SubnetFilter>,
}

/// A subnet matches if all given fields match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) || has(self.description) || has(self.projectID) || has(self.cidr) || has(self.ipVersion) || has(self.tags) || has(self.tagsAny) || has(self.notTags) || has(self.notTagsAny)").message("filter must have at least one field"))]
pub struct SubnetFilter {
    /// The exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
    /// The exact description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub description: Option<String>,
    /// The ID of the owning project.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub project_id: Option<String>,
    /// The exact CIDR, as Neutron writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 43))]
    pub cidr: Option<String>,
    /// The IP version: 4 or 6.
    #[serde(default, rename = "ipVersion", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ip_version")]
    pub ip_version: Option<u8>,
    /// Matches if all of these tags are present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Matches if any of these tags is present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags_any: Vec<String>,
    /// Excludes a match that has all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags: Vec<String>,
    /// Excludes a match that has any of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub not_tags_any: Vec<String>,
}
