//! `Warning` response headers.

use http::HeaderValue;

/// Values of the `Warning` headers: duplicates removed, within the size limits of kube-apiserver.
pub fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    const MAX_TOTAL: usize = 4096;
    const MAX_EACH: usize = 256;

    let mut unique: Vec<String> = Vec::new();
    for text in warnings.iter().map(|warning| sanitised(warning)) {
        if !text.is_empty() && !unique.contains(&text) {
            unique.push(text);
        }
    }
    let length = |text: &String| text.chars().count();
    let too_much = unique.iter().map(length).sum::<usize>() > MAX_TOTAL;
    let mut total = 0;
    let mut headers = Vec::with_capacity(unique.len());
    for mut text in unique {
        if too_much {
            text = text.chars().take(MAX_EACH).collect();
        }
        total += length(&text);
        if total > MAX_TOTAL {
            break;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        headers.extend(HeaderValue::from_str(&format!("299 - \"{quoted}\"")));
    }
    headers
}

/// Replaces control characters, which a header cannot contain.
fn sanitised(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(warnings: &[&str]) -> Vec<String> {
        let warnings: Vec<String> = warnings.iter().map(|&text| text.to_owned()).collect();
        warning_headers(&warnings)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    #[test]
    fn quotes_are_escaped_and_lines_joined() {
        assert_eq!(
            texts(&["careful \"x\"", "two\nlines", "careful \"x\"", ""]),
            [r#"299 - "careful \"x\"""#, r#"299 - "two lines""#]
        );
    }

    #[test]
    fn long_warnings_are_truncated() {
        let warnings: Vec<String> = (0..100)
            .map(|n| format!("{n:04}{}", "x".repeat(500)))
            .collect();
        let headers = warning_headers(&warnings);
        assert_eq!(headers.len(), 16);
        assert_eq!(headers[0].len(), 256 + "299 - \"\"".len());
    }
}
