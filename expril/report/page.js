// Sorts a table by the column whose heading is pressed, and saves figures as SVG and PNG and tables as CSV.
// Everything else on the page works without this script.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const text = (row) => row.cells[column].textContent.trim();
      const order = new Intl.Collator(undefined, { numeric: true });
      const compare = (a, b) => {
        const x = text(a), y = text(b), difference = parseFloat(x) - parseFloat(y);
        return Number.isNaN(difference) || heading.dataset.sort !== "number" ? order.compare(x, y) : difference;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a))));
    });
  });
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// The file stands beside its figure, but for the images, which the figure has.
function svgOf(place) {
  const svg = place.querySelector("template").content.firstElementChild;
  const images = place.previousElementSibling.querySelectorAll("image");
  svg.querySelectorAll("image").forEach((image, n) => image.setAttribute("href", images[n].getAttribute("href")));
  return new XMLSerializer().serializeToString(svg) + "\n";
}

function savePng(name, svg, scale, most) {
  const image = new Image();
  image.onload = () => {
    const times = Math.min(scale, most / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.width * times);
    canvas.height = Math.round(image.height * times);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(name, blob));
  };
  image.src = "data:image/svg+xml," + encodeURIComponent(svg);
}

// The same texts as expril/report/page_files.py writes, in the order of the rows on the page.
function csvOf(table) {
  const number = /^[-+−]?(\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d*)?|\.\d+)(e[-+−]?\d+)?$/i;
  const field = (text) => {
    let line = text.trim().replace(/\s+/g, " ");
    if (number.test(line)) line = line.replaceAll(",", "").replaceAll("−", "-");
    else if (/^[=+\-@＝＋－＠]/.test(line)) line = "'" + line;
    return /[",\r\n]/.test(line) ? `"${line.replaceAll('"', '""')}"` : line;
  };
  const words = (cell) => {
    const copy = cell.cloneNode(true);
    for (const unread of copy.querySelectorAll("[aria-hidden], .sr")) unread.remove();
    for (const under of copy.querySelectorAll(".under")) under.prepend(" – ");
    return copy.textContent;
  };
  const cells = (row) => [...row.cells].filter((cell) => !cell.matches(".plot, .cells")).map(words);
  const grouped = table.querySelector(".group") !== null;
  const lines = [[...(grouped ? ["group"] : []), ...cells(table.tHead.rows[0])]];
  for (const body of table.tBodies) {
    const group = body.querySelector(".group");
    const rows = [...body.rows].filter((row) => row !== group);
    for (const row of rows) lines.push([...(grouped ? [group ? words(group) : ""] : []), ...cells(row)]);
  }
  return "\ufeff" + lines.map((line) => line.map(field).join(",") + "\r\n").join("");
}

for (const place of document.querySelectorAll(".save")) {
  const { name, title } = place.dataset;
  const add = (kind, press) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", `Save as ${kind}: ${title}`);
    button.addEventListener("click", press);
    place.append(button);
  };
  if (place.querySelector("template")) {
    add("SVG", () => download(`${name}.svg`, new Blob([svgOf(place)], { type: "image/svg+xml" })));
    add("PNG", () => savePng(`${name}.png`, svgOf(place), Number(place.dataset.scale), Number(place.dataset.most)));
  }
  if ("table" in place.dataset) {
    let wide = place.previousElementSibling;
    while (!wide.matches(".wide")) wide = wide.previousElementSibling;
    add("CSV", () => download(`${name}.csv`, new Blob([csvOf(wide.querySelector("table"))], { type: "text/csv" })));
  }
  place.hidden = false;
}
