// Shows the adapter, the rows that the library reports, and the total. The compiled library calls
// `expectRows` and `showRow`.

import init, { runChecks } from "./web.js";

const find = (id) => document.getElementById(id);
const counts = { passed: 0, failed: 0 };
const timed = [];
// The number of checks; 0 until the library reports it.
let expected = 0;

function cell(row, text, kind) {
  const cell = row.insertCell();
  cell.textContent = text;
  if (kind) cell.className = kind;
}

function total() {
  find("total").textContent = `${counts.passed} passed, ${counts.failed} failed of ${expected}`;
}

// Browsers show the names of vendor and architecture at most.
async function showAdapter() {
  const { vendor, architecture, description } = (await navigator.gpu.requestAdapter())?.info ?? {};
  const names = [description, vendor, architecture].filter((name) => name);
  find("adapter").textContent = `Adapter: ${names.join(", ") || "unknown"}; ${navigator.userAgent}`;
}

globalThis.expectRows = (count) => {
  expected = count;
  total();
};

globalThis.showRow = (name, passed, detail, seconds, operations) => {
  counts[passed ? "passed" : "failed"] += 1;
  const row = find("rows").insertRow();
  cell(row, name);
  cell(row, passed ? `passed: ${detail}` : `failed: ${detail}`, passed ? "passed" : "failed");
  const isTimed = passed && Number.isFinite(seconds);
  cell(row, isTimed ? `${(seconds * 1e3).toPrecision(3)} ms` : "", "number");
  cell(row, isTimed ? (operations / seconds / 1e9).toPrecision(3) : "", "number");
  if (isTimed) timed.push({ name, rate: operations / seconds / 1e9 });
  total();
  bars();
};

// Draws one bar for each timed run.
function bars() {
  const [height, label, width] = [22, 300, 900];
  const most = Math.max(...timed.map((run) => run.rate));
  const svg = find("bars");
  svg.setAttribute("viewBox", `0 0 ${width} ${height * timed.length}`);
  svg.replaceChildren(...timed.flatMap((run, place) => {
    const element = (name, attributes, text = "") => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      return element;
    };
    const length = (width - label - 120) * run.rate / most;
    const y = place * height;
    return [
      element("text", { x: label - 8, y: y + 15, "text-anchor": "end" }, run.name),
      element("rect", { x: label, y: y + 3, width: length, height: height - 6 }),
      element("text", { x: label + length + 6, y: y + 15 }, `${run.rate.toPrecision(3)} GFLOP/s`),
    ];
  }));
}

function end(state) {
  find("state").textContent = state;
  // A test of the page waits for this report; a server that shows the page to people ignores it.
  const failures = [...document.querySelectorAll("td.failed")].map(
    (cell) => `${cell.parentElement.cells[0].textContent}: ${cell.textContent}`,
  );
  const report = { adapter: find("adapter").textContent, ...counts, expected, state, failures, timed };
  return fetch("report", { method: "POST", body: JSON.stringify(report) }).catch(() => {});
}

try {
  if (!navigator.gpu) throw new Error("this browser has no WebGPU");
  await showAdapter();
  await init();
  await runChecks();
  await end("(finished)");
} catch (error) {
  await end(`(ended: ${error})`);
}
