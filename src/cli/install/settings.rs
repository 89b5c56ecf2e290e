//! The one change that `leaf` makes in a client's settings file: a permission rule, put in and taken out as text, so that
//! nothing else in the file moves (order, spacing, numbers, keys that we don't know).

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The rule that lets the client run `leaf` commands without asking.
pub const RULE: &str = "Bash(leaf:*)";

/// Rules that cover [`RULE`], so that it need not be added.
const WIDER: [&str; 4] = [RULE, "Bash(leaf *)", "Bash", "Bash(*)"];

/// What had to be made around the rule; taken out again with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// Only the rule: the list was there.
    Rule,
    /// `permissions.allow` too.
    Allow,
    /// `permissions` too.
    Permissions,
}

/// Why a settings file can't be edited; reads on after the file's name.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Not JSON: the parser's sentence.
    NotJson(String),
    /// The named part is there, and isn't what the client documents.
    WrongType(&'static str),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NotJson(why) => write!(f, "is not valid JSON ({why})"),
            Unfit::WrongType(what) => f.write_str(what),
        }
    }
}

/// Whether the settings in `text` already let the client run `leaf` commands.
pub fn allows(text: &str) -> Result<bool, Unfit> {
    Ok(match Place::find(text)? {
        Place::List { rules, .. } => rules.iter().any(|r| WIDER.contains(&r.text.as_str())),
        Place::Empty | Place::Root(_) | Place::Permissions(_) => false,
    })
}

/// Returns `text` with the rule at the end of `permissions.allow`, and what was made for it; `None` where it is allowed already.
pub fn add(text: &str) -> Result<Option<(String, Made)>, Unfit> {
    if allows(text)? {
        return Ok(None);
    }
    Ok(Some(match Place::find(text)? {
        Place::Empty => (
            format!("{{\n  \"permissions\": {{\n    \"allow\": [\n      \"{RULE}\"\n    ]\n  }}\n}}\n"),
            Made::Permissions,
        ),
        Place::Root(root) => {
            (root.append(text, &format!("\"permissions\": {{\"allow\": [\"{RULE}\"]}}")), Made::Permissions)
        }
        Place::Permissions(permissions) => (permissions.append(text, &format!("\"allow\": [\"{RULE}\"]")), Made::Allow),
        Place::List { list, .. } => (list.append(text, &format!("\"{RULE}\"")), Made::Rule),
    }))
}

/// Returns `text` without the rule, and without what was made for it where that is empty now; `None` where the rule is gone already.
pub fn remove(text: &str, made: Made) -> Result<Option<String>, Unfit> {
    let Place::List { list, rules } = Place::find(text)? else {
        return Ok(None);
    };
    let Some(at) = rules.iter().rposition(|r| r.text == RULE) else {
        return Ok(None);
    };
    let mut out = list.without(text, at);
    if made == Made::Rule || rules.len() > 1 {
        return Ok(Some(out));
    }
    let root = Container::object(&out, 0..out.len())?;
    if let Some((at, permissions)) = root.member(&out, "permissions")? {
        let inner = Container::object(&out, permissions)?;
        let only = inner.items.len() == 1;
        if made == Made::Permissions && only {
            out = root.without(&out, at);
        } else if let Some((at, _)) = inner.member(&out, "allow")? {
            out = inner.without(&out, at);
        }
    }
    Ok(Some(out))
}

/// How far the way to `permissions.allow` exists.
enum Place {
    Empty,
    Root(Container),
    Permissions(Container),
    List { list: Container, rules: Vec<Text> },
}

impl Place {
    fn find(text: &str) -> Result<Place, Unfit> {
        if text.trim().is_empty() {
            return Ok(Place::Empty);
        }
        // RawValue only checks shape as deep as it is asked for: the whole file is judged before any part of it is trusted.
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| Unfit::NotJson(e.to_string()))?;
        let root = Container::object(text, 0..text.len())
            .map_err(|_| Unfit::WrongType("holds something else than a JSON object"))?;
        let Some((_, permissions)) = root.member(text, "permissions")? else {
            return Ok(Place::Root(root));
        };
        let permissions = Container::object(text, permissions)
            .map_err(|_| Unfit::WrongType("has a \"permissions\" that is no object"))?;
        let Some((_, allow)) = permissions.member(text, "allow")? else {
            return Ok(Place::Permissions(permissions));
        };
        let list = Container::list(text, allow)
            .map_err(|_| Unfit::WrongType("has a \"permissions.allow\" that is no list"))?;
        let rules = list
            .items
            .iter()
            .map(|item| Text { text: serde_json::from_str(&text[item.clone()]).unwrap_or_default() })
            .collect();
        Ok(Place::List { list, rules })
    }
}

/// A rule as written; empty for an entry that is no string.
struct Text {
    text: String,
}

/// An object or list: where it and its members stand in the text, in bytes. A member of an object begins at its key.
struct Container {
    open: usize,
    items: Vec<Range<usize>>,
    values: Vec<Range<usize>>,
}

impl Container {
    fn object(text: &str, at: Range<usize>) -> Result<Container, Unfit> {
        let members: Members = parse(&text[at.clone()])?;
        Ok(Container::new(text, at.start, members.0.into_iter().map(|v| span(text, v)).collect()))
    }

    fn list(text: &str, at: Range<usize>) -> Result<Container, Unfit> {
        let values: Vec<&RawValue> = parse(&text[at.clone()])?;
        Ok(Container::new(text, at.start, values.into_iter().map(|v| span(text, v)).collect()))
    }

    fn new(text: &str, start: usize, values: Vec<Range<usize>>) -> Container {
        let open = start + blank(&text[start..]).len();
        let mut from = open + 1;
        let items = values
            .iter()
            .enumerate()
            .map(|(n, value)| {
                let mut begin = from + blank(&text[from..]).len();
                if n > 0 {
                    begin += 1;
                    begin += blank(&text[begin..]).len();
                }
                from = value.end;
                begin..value.end
            })
            .collect();
        Container { open, items, values }
    }

    /// The last member of that name (as the client reads it), by index and its value's place.
    fn member(&self, text: &str, name: &str) -> Result<Option<(usize, Range<usize>)>, Unfit> {
        for (n, (item, value)) in self.items.iter().zip(&self.values).enumerate().rev() {
            let key = text[item.start..value.start].trim_end().trim_end_matches(':').trim_end();
            if parse::<String>(key)? == name {
                return Ok(Some((n, value.clone())));
            }
        }
        Ok(None)
    }

    fn append(&self, text: &str, new: &str) -> String {
        let Some(last) = self.items.last() else {
            return splice(text, self.open + 1..self.open + 1, new);
        };
        let before = match self.items.len() {
            1 => self.open + 1,
            n => {
                let from = self.items[n - 2].end;
                from + blank(&text[from..]).len() + 1
            }
        };
        let lead = &text[before..last.start];
        splice(text, last.end..last.end, &format!(",{lead}{new}"))
    }

    fn without(&self, text: &str, n: usize) -> String {
        let gone = match (n.checked_sub(1), self.items.get(n + 1)) {
            (Some(previous), _) => self.items[previous].end..self.items[n].end,
            (None, Some(next)) => self.items[n].start..next.start,
            (None, None) => self.items[n].clone(),
        };
        splice(text, gone, "")
    }
}

/// The values of an object, in the file's order.
struct Members<'t>(Vec<&'t RawValue>);

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Vec<&'de RawValue>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some((_, value)) = map.next_entry::<String, &RawValue>()? {
                    values.push(value);
                }
                Ok(values)
            }
        }
        from.deserialize_map(Values).map(Members)
    }
}

fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, Unfit> {
    serde_json::from_str(text).map_err(|e| Unfit::NotJson(e.to_string()))
}

/// Where a borrowed value lies in the text that it was parsed from.
fn span(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.get().len()
}

fn blank(text: &str) -> &str {
    let end = text.find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')).unwrap_or(text.len());
    &text[..end]
}

fn splice(text: &str, at: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &text[..at.start], &text[at.end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn added(text: &str) -> String {
        add(text).expect("fit").expect("not there").0
    }

    #[test]
    fn the_rule_follows_the_lists_own_layout() {
        let text = "{\n\t\"z\": 1.50,\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Bash(ls)\"\n\t\t]\n\t},\n\t\"a\": [ ]\n}";
        assert_eq!(
            added(text),
            "{\n\t\"z\": 1.50,\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Bash(ls)\",\n\t\t\t\"Bash(leaf:*)\"\n\t\t]\n\t},\n\t\"a\": [ ]\n}"
        );
    }

    #[test]
    fn what_is_missing_is_made() {
        assert_eq!(added("{}"), r#"{"permissions": {"allow": ["Bash(leaf:*)"]}}"#);
        assert_eq!(
            added(r#"{"permissions": {"deny": ["x"]}}"#),
            r#"{"permissions": {"deny": ["x"],"allow": ["Bash(leaf:*)"]}}"#
        );
        assert_eq!(
            serde_json::from_str::<Value>(&added(" \n")).expect("JSON"),
            json!({"permissions": {"allow": [RULE]}})
        );
    }

    #[test]
    fn a_wider_rule_is_enough() {
        for rule in WIDER {
            let text = json!({"permissions": {"allow": [rule]}}).to_string();
            assert_eq!(add(&text), Ok(None), "{rule}");
        }
        assert!(!allows(r#"{"permissions": {"allow": ["Bash(leafy:*)"], "deny": ["Bash"]}}"#).expect("fit"));
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        for (text, why) in [
            ("{", "is not valid JSON (EOF while parsing an object at line 1 column 1)"),
            ("{\"a\": 1} // x", "is not valid JSON (trailing characters at line 1 column 10)"),
            ("[]", "holds something else than a JSON object"),
            (r#"{"permissions": []}"#, "has a \"permissions\" that is no object"),
            (r#"{"permissions": {"allow": {}}}"#, "has a \"permissions.allow\" that is no list"),
        ] {
            assert_eq!(add(text).expect_err(text).to_string(), why);
            assert_eq!(allows(text).expect_err(text).to_string(), why);
        }
    }

    #[test]
    fn of_two_members_of_a_name_the_last_counts() {
        let text = r#"{"permissions": {"allow": ["Bash(leaf:*)"]}, "permissions": {"allow": []}}"#;
        assert_eq!(
            added(text),
            r#"{"permissions": {"allow": ["Bash(leaf:*)"]}, "permissions": {"allow": ["Bash(leaf:*)"]}}"#
        );
    }

    #[test]
    fn an_escaped_key_is_read_as_the_client_reads_it() {
        assert_eq!(
            added(r#"{"permis\u0073ions" : {"allow":[]}}"#),
            r#"{"permis\u0073ions" : {"allow":["Bash(leaf:*)"]}}"#
        );
    }

    #[test]
    fn taking_out_keeps_what_others_put_beside_it_since() {
        let text = r#"{"permissions": {"allow": ["Bash(leaf:*)", "Bash(ls)"]}}"#;
        for made in [Made::Rule, Made::Allow, Made::Permissions] {
            assert_eq!(remove(text, made), Ok(Some(r#"{"permissions": {"allow": ["Bash(ls)"]}}"#.into())));
        }
        let text = r#"{"permissions": {"deny": ["x"], "allow": ["Bash(leaf:*)"]}}"#;
        assert_eq!(remove(text, Made::Permissions), Ok(Some(r#"{"permissions": {"deny": ["x"]}}"#.into())));
        assert_eq!(remove(r#"{"permissions": {"allow": ["Bash(ls)"]}}"#, Made::Rule), Ok(None));
        assert_eq!(remove("{}", Made::Permissions), Ok(None));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            r#"[ -~é"\\\n,:\[\]{}]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(r#"[a-z"\\{,]{0,4}"#, inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn only_the_rule_is_added_and_taking_it_out_gives_the_same_bytes(
            before in prop::collection::btree_map("[a-z]{1,5}", value(), 0..3),
            after in prop::collection::btree_map("[q-z]{1,5}", value(), 0..3),
            beside in prop::option::of(prop::collection::btree_map("[b-z]{1,3}", value(), 0..3)),
            allow in prop::option::of(prop::collection::vec(value(), 0..4)),
            pretty in any::<bool>(),
        ) {
            let mut root: serde_json::Map<String, Value> = before.into_iter().collect();
            if let Some(beside) = beside {
                let mut permissions: serde_json::Map<String, Value> = beside.into_iter().collect();
                if let Some(allow) = allow {
                    permissions.insert("allow".into(), allow.into());
                }
                root.insert("permissions".into(), permissions.into());
            }
            root.extend(after);
            prop_assume!(root.get("permissions").is_none_or(Value::is_object));
            let root = Value::from(root);
            let text = if pretty { serde_json::to_string_pretty(&root) } else { serde_json::to_string(&root) }.expect("JSON");
            let (out, made) = add(&text).expect("fit").expect("not there");
            let mut expected = root.clone();
            let list = &mut expected["permissions"]["allow"];
            match list.as_array_mut() {
                Some(rules) => rules.push(RULE.into()),
                None => *list = json!([RULE]),
            }
            prop_assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), expected);
            prop_assert_eq!(remove(&out, made).expect("fit").expect("there"), text);
        }
    }
}
