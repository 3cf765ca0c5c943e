// Checks the page of a record in two frames, as wide as a desk and a phone, and sends a list of faults.
"use strict";

// Overlap of two texts in both directions from which they count as one over the other, in pixels.
// Boxes of lines contain space above and below the letters.
const OVERLAP = 3;

// Returns the boxes of all visible texts, from the top.
function texts(frame) {
  const page = frame.contentDocument;
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  const boxes = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.textContent.trim() === "" || ["STYLE", "SCRIPT"].includes(node.parentElement.tagName)) continue;
    const range = page.createRange();
    range.selectNodeContents(node);
    // A text of several lines has a box for each. What a cell cuts off is not visible.
    for (const box of range.getClientRects()) {
      if (box.width > 0 && box.height > 0) boxes.push({ box, text: node.textContent.trim(), node });
    }
  }
  return boxes.sort((one, other) => one.box.top - other.box.top);
}

// Returns pairs of texts of which one is over the other.
function overlaps(frame) {
  const faults = [];
  let open = [];
  for (const next of texts(frame)) {
    if (next.node.parentElement.closest(".icicle")) continue;
    open = open.filter((seen) => seen.box.bottom > next.box.top + OVERLAP);
    for (const seen of open) {
      const width = Math.min(seen.box.right, next.box.right) - Math.max(seen.box.left, next.box.left);
      if (width > OVERLAP && seen.node !== next.node) faults.push(`"${next.text}" over "${seen.text}"`);
    }
    open.push(next);
  }
  return faults;
}

function check(frame) {
  const faults = [];
  const page = frame.contentDocument;
  const root = page.documentElement;
  const say = (text) => faults.push(`${frame.width} pixels: ${text}`);
  if (root.scrollWidth > root.clientWidth) {
    say(`the page is ${root.scrollWidth} pixels wide (limit ${root.clientWidth})`);
  }
  const first = page.querySelector("#answers .lane");
  if (!first) say("there is no figure at the top");
  else if (first.getBoundingClientRect().top > frame.height) say("the first figure is below the first screen");
  for (const link of page.querySelectorAll("a")) {
    const target = link.getAttribute("href");
    if (!target.startsWith("#") || !page.getElementById(decodeURIComponent(target.slice(1)))) {
      say(`the link ${target} leads nowhere`);
    }
  }
  // A link into a folded section opens it, which needs a frame to be shown; here all are opened.
  for (const folded of page.querySelectorAll("details")) folded.open = true;
  if (root.scrollWidth > root.clientWidth) {
    say(`with all sections open, the page is ${root.scrollWidth} pixels wide (limit ${root.clientWidth})`);
  }
  const over = overlaps(frame);
  for (const fault of over.slice(0, 10)) say(fault);
  if (over.length > 10) say(`and ${over.length - 10} more`);
  return faults;
}

addEventListener("load", () => {
  const faults = [...document.querySelectorAll("iframe")].flatMap((frame) => {
    try {
      return check(frame);
    } catch (error) {
      return [`${frame.width} pixels: ${error}`];
    }
  });
  fetch("report", { method: "POST", body: JSON.stringify(faults) });
});
