"use strict";
// Curves, and keys: "/" goes to the search, "g" and a letter to a page. Everything else works without this file.
(function () {
  var chart = null, place = document.getElementById("chart");
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function draw(data) {
    if (!place || data[0].length < 2) { return; }
    if (chart) { chart.setData(data); return; }
    var grid = { stroke: colour("--line"), width: 1 }, axis = { stroke: colour("--soft"), grid: grid, ticks: grid };
    chart = new uPlot({
      width: place.clientWidth, height: 150, cursor: { y: false },
      series: [{}, { label: "in / s", stroke: colour("--accent"), width: 2 }, { label: "out / s", stroke: colour("--good"), width: 2 }],
      axes: [axis, axis], scales: { y: { range: function (u, low, high) { return [0, Math.max(1, high * 1.1)]; } } }
    }, data, place);
  }
  function look() {
    if (!place || document.hidden) { return; }
    fetch(place.dataset.source, { credentials: "same-origin" }).then(function (r) { return r.ok ? r.json() : null; })
      .then(function (data) { if (data) { draw(data); } }).catch(function () {});
  }
  if (place) {
    look(); setInterval(look, 3000);
    window.addEventListener("resize", function () { if (chart) { chart.setSize({ width: place.clientWidth, height: 150 }); } });
  }
  var before = "";
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
    if (event.key === "/") {
      var search = document.querySelector("input[type=search]");
      if (search) { search.focus(); event.preventDefault(); }
    } else if (before === "g") {
      var link = document.querySelector("nav a[data-key='" + CSS.escape(event.key) + "']");
      if (link) { link.click(); }
    }
    before = event.key;
  });
})();
