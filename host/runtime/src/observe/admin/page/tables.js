// Tables whose rows stay where they are while their figures change.

/**
 * A table. Each column has a `title` and a function `text` for the text of a row. A column may have a function `node`,
 * which makes the content of a cell again when its text changes, and a function `order`, whose result sorts the rows.
 * With `sort`, a click on a heading sorts the rows. At most `page` rows are shown at a time.
 */
function table({ caption, columns, key, empty, sort = null, page = Infinity }) {
  const body = el("tbody");
  const rows = new Map();
  let [all, at] = [[], 0];
  const headings = columns.map((column) => {
    const attributes = { scope: "col", class: column.class, title: column.help };
    if (!sort) return el("th", attributes, column.title);
    const choose = () => {
      const isSame = sort.by === column.id;
      Object.assign(sort, { by: column.id, down: isSame ? !sort.down : Boolean(column.number) });
      at = 0;
      show(all);
    };
    return el("th", attributes, el("button", { type: "button", on: { click: choose } }, column.title));
  });
  const head = el("thead", {}, el("tr", {}, headings));
  const turn = (by) => () => {
    at += by;
    show(all);
    node.scrollIntoView({ block: "nearest" });
  };
  const [before, after] = [pagerButton("Previous", turn(-1)), pagerButton("Next", turn(1))];
  const range = el("span", { class: "range" });
  const pager = el("div", { class: "pager", hidden: true }, before, range, after);
  const node = el("div", { class: "frame" }, el("table", {}, el("caption", {}, caption), head, body), page < Infinity && pager);

  function rowOf(name, row) {
    let known = rows.get(name);
    if (!known) {
      const cells = columns.map((column) => el(column.heads ? "th" : "td", { class: column.class, scope: column.heads ? "row" : null }));
      known = { line: el("tr", {}, cells), cells, texts: [] };
      rows.set(name, known);
    }
    columns.forEach((column, index) => {
      const text = column.text(row);
      if (known.texts[index] === text) return;
      known.texts[index] = text;
      if (column.node) put(known.cells[index], column.node(row));
      else setText(known.cells[index], text);
    });
    return known.line;
  }

  function sorted() {
    const column = columns.find((it) => sort && it.id === sort.by);
    if (!column) return all;
    const order = column.order ?? column.text;
    const sign = sort.down ? -1 : 1;
    const compare = (one, other) => (one < other ? -sign : one > other ? sign : 0);
    return all.map((row) => [order(row), key(row), row]).sort((a, b) => compare(a[0], b[0]) || (a[1] < b[1] ? -1 : 1)).map((it) => it[2]);
  }

  function show(shown) {
    all = shown;
    const pages = Math.max(1, Math.ceil(all.length / page));
    at = Math.min(Math.max(at, 0), pages - 1);
    const first = at * page || 0;
    const now = sorted().slice(first, first + page);
    const names = new Set(now.map(key));
    for (const [name, row] of rows) {
      if (!names.has(name)) {
        row.line.remove();
        rows.delete(name);
      }
    }
    now.map((row) => rowOf(key(row), row)).forEach((line, index) => {
      if (body.children[index] !== line) body.insertBefore(line, body.children[index] ?? null);
    });
    while (body.children.length > now.length) body.lastChild.remove();
    if (now.length === 0) put(body, el("tr", {}, el("td", { class: "empty", colspan: columns.length }, empty())));
    if (sort) {
      columns.forEach((column, index) => {
        const order = column.id === sort.by ? (sort.down ? "descending" : "ascending") : "none";
        headings[index].setAttribute("aria-sort", order);
      });
    }
    pager.hidden = pages < 2;
    setText(range, `${count(first + 1)}–${count(first + now.length)} of ${count(all.length)}`);
    [before.disabled, after.disabled] = [at === 0, at === pages - 1];
  }

  return { node, show };
}

function pagerButton(text, click) {
  return el("button", { type: "button", on: { click } }, text);
}

/** The first lines of a text that may be long. */
function clipped(text) {
  return text && el("p", { class: "clipped" }, text);
}

/** The lines that a plugin had logged before a failure. */
function logged(lines) {
  return lines.length > 0 && el("ul", { class: "log", "aria-label": "Logged before" }, lines.map((it) => el("li", {}, el("b", {}, it.level), ` ${it.message}`)));
}

/** A list of names with values. A value is a text or an element; a pair whose value is null is left out. */
function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  return el("dl", { class: "facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

let sections = 0;

/** A part of a page with its heading. Two parts may have the same title. */
function section(title, ...children) {
  const id = `part-${++sections}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), children);
}

/** A search field, with its label. */
function searchField(label, value, change) {
  const input = el("input", {
    type: "search", value, placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false",
    on: { input: () => change(input.value) },
  });
  return input;
}
