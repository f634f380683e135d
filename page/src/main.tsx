import "uplot/dist/uPlot.min.css";
import "./styles/page.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { ApiSource } from "./source/api.ts";
import { type ReportData, ReportSource } from "./source/report.ts";

const data = document.getElementById("wirelens-report")?.textContent;
const source = data ? new ReportSource(JSON.parse(data) as ReportData) : new ApiSource();
render(<App source={source} />, document.getElementById("page")!);
