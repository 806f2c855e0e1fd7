
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  for (const control of document.querySelectorAll(".controls")) control.hidden = false;

  /* the table: sorted by the places that every row has in every column */
  const table = byId("layer-table");
  const rows = table ? Array.from(table.tBodies[0].rows) : [];
  const places = new Map(rows.map((row) => [row, row.dataset.places.split(" ").map(Number)]));

  function sort(column, descending) {
    const sign = descending ? -1 : 1;
    const sorted = rows.slice().sort((a, b) => {
      const [x, y] = [places.get(a), places.get(b)];
      return sign * (x[column] - y[column]) || x[0] - y[0];
    });
    table.tBodies[0].append(...sorted);
  }

  for (const button of table ? table.tHead.querySelectorAll("button") : []) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const before = head.getAttribute("aria-sort");
      const column = Number(button.dataset.column);
      const first = head.classList.contains("number") && column > 0 ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const now = before === first ? second : first;
      for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", now);
      sort(column, now === "descending");
    });
  }

  /* the filter: words that a row must hold, all of them */
  const filter = byId("filter");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      if (!row.hidden) shown += 1;
    }
    const all = rows.length + (rows.length === 1 ? " row" : " rows");
    byId("count").value = words.length ? shown + " of " + all : all;
  }

  if (filter) filter.addEventListener("input", apply);

  /* whoever follows a link to a row finds it, filtered or not */
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#row-']");
    if (!link) return;
    const row = byId(link.getAttribute("href").slice(1));
    if (row && row.hidden) {
      filter.value = "";
      apply();
    }
  });

  /* the graph: one stop for the keyboard, arrows from row to row, the figures of a row below it */
  const readout = byId("readout");
  const nodes = Array.from(document.querySelectorAll("svg.network a"));
  const lines = Array.from(document.querySelectorAll("svg.network .lanes path"));

  function show(node) {
    readout.textContent = node.querySelector("title").textContent;
    for (const line of lines) {
      const near = line.dataset.t === node.dataset.i || line.dataset.f === node.dataset.i;
      line.classList.toggle("near", near);
    }
  }

  function focus(position) {
    const node = nodes[Math.max(0, Math.min(nodes.length - 1, position))];
    for (const other of nodes) other.tabIndex = other === node ? 0 : -1;
    node.focus();
  }

  if (readout && nodes.length) readout.hidden = false;
  nodes.forEach((node, position) => {
    node.tabIndex = position ? -1 : 0;
    node.addEventListener("pointerenter", () => show(node));
    node.addEventListener("focus", () => show(node));
    node.addEventListener("keydown", (event) => {
      const steps = { ArrowDown: position + 1, ArrowUp: position - 1, Home: 0, End: nodes.length - 1 };
      if (event.key in steps) {
        event.preventDefault();
        focus(steps[event.key]);
      }
    });
  });

  /* the report as a file, byte for byte as it is embedded */
  const download = byId("download");
  if (download) {
    download.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([byId("report").textContent], { type: "application/json" }));
      link.download = "lipaudit-report.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
})();
