//! Reads a JSON array element by element, so that it is never in memory as a whole.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// Calls a function with each element of an array.
pub(super) struct Each<T, F>(F, PhantomData<fn() -> T>);

impl<T, F: FnMut(T)> Each<T, F> {
    pub(super) fn new(read: F) -> Self {
        Self(read, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut json: A) -> Result<(), A::Error> {
        while let Some(element) = json.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}
