//! Just enough SVG.

use std::fmt::Write;

/// Where a text lies by its point.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn.
pub(in crate::bench) struct Svg {
    text: String,
}

/// Colours by class; on dark ground others. No custom properties: not every program that shows SVG knows them.
const STYLE: &str = "\
text{font-family:'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:13px;fill:#1f2328}\
.paper{fill:#ffffff}.title{font-size:23px;font-weight:600}.panel{font-size:15px;font-weight:600}\
.faint{fill:#656d76;font-size:12px}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#8c959f;stroke-width:1}\
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.line.nonic{stroke-width:3.5}\
.leader{fill:none;stroke-width:1;opacity:.55}\
.line.nonic,.leader.nonic{stroke:#0969da}.dot.nonic,.bar.nonic{fill:#0969da}text.nonic{fill:#0969da;font-weight:600}\
.line.send,.leader.send{stroke:#1a7f37}.dot.send,.bar.send,text.send{fill:#1a7f37}\
.line.read,.leader.read{stroke:#0a8a9b}.dot.read,.bar.read,text.read{fill:#0a8a9b}\
.line.ucx,.leader.ucx{stroke:#d4700a}.dot.ucx,.bar.ucx{fill:#d4700a}text.ucx{fill:#b35900}\
.line.libfabric,.leader.libfabric{stroke:#8250df}.dot.libfabric,.bar.libfabric{fill:#8250df}text.libfabric{fill:#8250df}\
.line.machine,.limit,.leader.machine{stroke:#57606a}.line.machine,.limit{stroke-width:1.8;stroke-dasharray:6 4}\
.dot.machine{fill:#57606a}text.machine{fill:#57606a}.bar{opacity:.92}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.paper{fill:#0d1117}.faint{fill:#9198a1}.grid{stroke:#262c36}\
.axis{stroke:#6e7681}.line.nonic,.leader.nonic{stroke:#58a6ff}.dot.nonic,.bar.nonic,text.nonic{fill:#58a6ff}\
.line.send,.leader.send{stroke:#3fb950}.dot.send,.bar.send,text.send{fill:#3fb950}\
.line.read,.leader.read{stroke:#39c5cf}.dot.read,.bar.read,text.read{fill:#39c5cf}\
.line.ucx,.leader.ucx{stroke:#f0883e}.dot.ucx,.bar.ucx,text.ucx{fill:#f0883e}\
.line.libfabric,.leader.libfabric{stroke:#bc8cff}.dot.libfabric,.bar.libfabric,text.libfabric{fill:#bc8cff}\
.line.machine,.limit,.leader.machine{stroke:#9198a1}.dot.machine,text.machine{fill:#9198a1}}";

impl Svg {
    /// An empty one of that size in pixels; `about` is for those who cannot see it.
    pub(in crate::bench) fn new(width: f64, height: f64, about: &str) -> Self {
        let about = escaped(about);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{about}\">\n<title>{about}</title>\n\
             <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
        );
        Self { text }
    }

    pub(in crate::bench) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escaped(words);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
        ));
    }

    pub(in crate::bench) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!(
            "<polyline class=\"{class}\" fill=\"none\" points=\"{}\"/>",
            points.join(" ")
        ));
    }

    pub(in crate::bench) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"));
    }

    pub(in crate::bench) fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        ));
    }

    /// The whole text.
    pub(in crate::bench) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("a string takes any text");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_the_picture() {
        let mut svg = Svg::new(10.0, 10.0, "a \"b\"");
        svg.text((1.0, 2.0), Anchor::Start, "title", "<script> & more");
        let text = svg.finish();
        assert!(text.contains("&lt;script&gt; &amp; more") && text.contains("a &quot;b&quot;"), "{text}");
        assert!(!text.contains("<script>"));
    }
}
