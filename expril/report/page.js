// Sorts a table by the column whose heading is pressed; everything else on the page works without this script.
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
