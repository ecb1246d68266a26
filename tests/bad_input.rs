//! What people get wrong, on real servers. Each slip is told within 15 s where the user looks, with the field or the
//! thing in its name and what to do; is mended within 30 s of the mend; and disturbs nobody else.

mod address;
mod case;
mod cloud;
mod credentials;
mod keystone;
mod list;
mod network;
mod rotation;
mod secrets;
mod tags;
mod words;
