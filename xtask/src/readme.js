// Sends the height of the page down to the end of its first figure, in pixels.
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  const figure = page.querySelector("#answers");
  const height = figure ? Math.ceil(figure.getBoundingClientRect().bottom) : "";
  fetch("report", { method: "POST", body: String(height) });
});
