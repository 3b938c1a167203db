//! What programs that measure print: lines of JSON, among others on a console.
use serde_json::Value;

/// The lines of a text that are JSON objects.
pub fn objects(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with('{'));
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// A console, as it comes.
#[derive(Debug, Default)]
pub struct Stream {
    /// A line that is not whole yet.
    rest: String,
}

impl Stream {
    /// Those of these lines that are whole with a piece of the console.
    pub fn hear(&mut self, piece: &[u8]) -> Vec<Value> {
        self.rest += &String::from_utf8_lossy(piece);
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        objects(&std::mem::replace(&mut self.rest, rest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_objects_are_lines() {
        let text = "hello\n{\"a\":1}\r\n  {\"b\":[]} \n[1]\n7\n{half\n\"x\"\n";
        assert_eq!(objects(text).count(), 2);
    }

    #[test]
    fn lines_in_pieces() {
        let mut stream = Stream::default();
        assert!(stream.hear(b"[ 0.1] noise\n{\"a\"").is_empty());
        let whole = stream.hear(b":1}\r\n{\"b\":2}\n{\"c\"");
        assert_eq!(whole, [json!({"a": 1}), json!({"b": 2})]);
    }
}
