//! JSON that is kept as text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A value that is seldom read, as text. As a tree it takes ten times as much memory, and there are thousands of claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonText(Box<str>);

impl JsonText {
    pub fn value(&self) -> Value {
        // It was made from a value.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Value::deserialize(json).map(|value| Self::from(&value))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written() {
        for json in ["null", "3", r#"{"a":[1,"x",null,{"b":1.5}]}"#, "[]", r#""\u0000é""#] {
            let value: Value = serde_json::from_str(json).unwrap();
            let text: JsonText = serde_json::from_str(json).unwrap();
            assert_eq!((text.value(), serde_json::to_value(&text).unwrap()), (value.clone(), value));
        }
    }
}
