//! Mistakes of users, on real servers. Each is reported within 15 s on the object that the user looks at, naming the field
//! and the fix; is recovered from within 30 s of the fix; and does not affect other pools.

mod allowed_hosts;
mod altered_cloud;
mod application_credential;
mod case;
mod cluster_identity;
mod credentials;
mod ip_address;
mod keystone;
mod list;
mod managed_fields;
mod network;
mod rotation;
mod secrets;
mod tags;
mod troubleshooting;
