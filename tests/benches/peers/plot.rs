//! A plot of a case as SVG: a panel for each figure, and a bar for each contender, with a line from its minimum to its
//! maximum.

use std::fmt::Write as _;

use crate::cases::Case;
use crate::contender::Contender;
use crate::report::{Column, Report, Spread, columns};

/// The sizes of a panel, its parts and a bar, in pixels.
const PANEL: f64 = 460.0;
const NAMES_WIDTH: f64 = 170.0;
const FIGURES: f64 = 60.0;
const BAR: f64 = 16.0;
const ROW: f64 = 22.0;
const TITLE: f64 = 34.0;
/// The number of panels in a row.
const ACROSS: usize = 2;

/// The whole picture.
pub(crate) fn draw(report: &Report, case: Case) -> String {
    let panels = columns(case);
    let contenders: Vec<_> = report.contenders(case).into_iter().collect();
    let height = TITLE + ROW * contenders.len() as f64 + 12.0;
    let (across, down) = (ACROSS.min(panels.len()), panels.len().div_ceil(ACROSS));
    let (all_width, all_height) = (PANEL * across as f64, height * down as f64 + TITLE);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}, {} objects: medians, less is better</text>\n",
        case.name(),
        report.objects(case),
    );
    for (place, column) in panels.iter().enumerate() {
        let (x, y) = ((place % ACROSS) as f64 * PANEL, (place / ACROSS) as f64 * height + TITLE);
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">{}</g>", panel(report, case, &contenders, column));
    }
    text + "</svg>\n"
}

fn panel(report: &Report, case: Case, contenders: &[Contender], column: &Column) -> String {
    let spreads: Vec<_> = contenders.iter().map(|it| report.spread(case, *it, column.figure)).collect();
    let most = spreads.iter().flatten().map(|spread| spread.most).fold(0.0, f64::max);
    let mut text = format!("<text x=\"8\" y=\"20\" font-weight=\"bold\">{}</text>", column.title);
    for (place, (contender, spread)) in contenders.iter().zip(spreads).enumerate() {
        let y = TITLE + ROW * place as f64;
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            NAMES_WIDTH - 6.0,
            y + 12.0,
            contender.name()
        );
        if let Some(spread) = spread {
            text += &bar(y, spread, most, colour(*contender));
        }
    }
    text
}

fn bar(y: f64, spread: Spread, most: f64, colour: &str) -> String {
    let scale = if most > 0.0 { (PANEL - NAMES_WIDTH - FIGURES) / most } else { 0.0 };
    let [least, median, most] = [spread.least, spread.median, spread.most].map(|figure| figure * scale);
    let (middle, left, right) = (y + BAR / 2.0, NAMES_WIDTH + least, NAMES_WIDTH + most);
    format!(
        "<rect x=\"{NAMES_WIDTH}\" y=\"{y}\" width=\"{median:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
         <line x1=\"{left:.1}\" y1=\"{middle}\" x2=\"{right:.1}\" y2=\"{middle}\" stroke=\"black\"/>\
         <text x=\"{:.1}\" y=\"{}\">{}</text>",
        right.max(NAMES_WIDTH + median) + 5.0,
        y + 12.0,
        short(spread.median),
    )
}

/// A figure with three significant digits.
fn short(figure: f64) -> String {
    let digits = match figure {
        figure if figure >= 100.0 => 0,
        figure if figure >= 10.0 => 1,
        figure if figure >= 1.0 => 2,
        _ => 3,
    };
    format!("{figure:.digits$}")
}

fn colour(contender: Contender) -> &'static str {
    match contender {
        contender if contender.is_a_host() => "#3b6ea5",
        Contender::ControllerRuntime | Contender::ControllerRuntimeApply => "#c77d2e",
        Contender::KubeRs => "#8a6fae",
        _ => "#9a9a9a",
    }
}
