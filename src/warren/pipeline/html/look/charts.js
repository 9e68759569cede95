// Draws every chart of the page in the colours of the moment: the figures name colours of the page, var(--series-1).
(() => {
  "use strict";
  const PAPER_PX = 660;
  const CONFIG = { displayModeBar: false, responsive: true, showTips: false, doubleClick: false };
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const places = [...document.querySelectorAll("[data-chart]")];
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;

  const night = matchMedia("(prefers-color-scheme: dark)");
  night.addEventListener("change", () => draw());
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  draw();

  function draw(width) {
    for (const place of places) {
      const { data, layout } = coloured(figures[Number(place.dataset.chart)]);
      const size = { height: place.clientHeight, ...(width ? { width, autosize: false } : { autosize: true }) };
      Plotly.react(place, data, { ...layout, ...size, ...look(layout) }, CONFIG);
    }
  }

  function paper(on) {
    document.documentElement.toggleAttribute("data-paper", on);
    draw(on ? PAPER_PX : undefined);
  }

  /** What all charts have in common. Nothing is dragged: a finger on a chart scrolls the page. */
  function look(layout) {
    const [ink, soft, line, surface] = ["--ink", "--soft", "--line", "--surface"].map((name) => colour(`var(${name})`));
    const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: soft };
    const axis = { fixedrange: true, gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
    return {
      font,
      dragmode: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: surface, bordercolor: line, font: { ...font, color: ink }, namelength: -1 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 12, t: 12, b: 44 },
      legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { ...font, color: ink } },
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  function coloured(value) {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
  }

  function colour(value) {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  }
})();
