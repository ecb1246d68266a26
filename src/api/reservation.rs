//! An address that is kept for one claim.

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::pool_schema as schema;

/// An address that is reserved for one claim.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
pub struct Reservation {
    /// The claim's name. CAPO names it `<server>-floating-ip-address`.
    #[schemars(length(min = 1, max = 253))]
    pub claim: String,
    /// The address of an existing floating IP of the project.
    #[schemars(schema_with = "schema::address")]
    pub address: String,
}

/// At most one reservation per claim and per address.
pub(super) fn reservations(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<Reservation>();
    json_schema!({
        "type": "array", "maxItems": 256, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["claim"],
        "items": item,
        "x-kubernetes-validations": [
            {"rule": "self.all(a, self.exists_one(b, a.address == b.address))", "message": "an address can be reserved for one claim only"}
        ]
    })
}
