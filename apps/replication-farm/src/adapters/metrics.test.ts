import { scrapeMetrics } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { startMetrics } from "./metrics.ts";

it("reports sets in trouble by urgency, including 0, so that an alert on it ends", async () => {
  await using telemetry = await startTelemetry({ service: "replication-farm", version: "test", env: {} });
  const troubled = { HIGH: 1, LOW: 0 };
  using _metrics = startMetrics({ owned: () => 2, unreadable: () => 0, troubled: (urgency) => troubled[urgency] });
  const scraped = async (series = "troubled"): Promise<string[]> => {
    const line = new RegExp(`^muster_farm_${series}\\{.*muster_farm_urgency="(\\w+)".*\\} (\\d+)`, "gm");
    const lines = (await scrapeMetrics(telemetry)).matchAll(line);
    return [...lines].map(([, urgency, count]) => `${urgency ?? ""} ${count ?? ""}`);
  };
  expect(await scraped()).toEqual(["HIGH 1", "LOW 0"]);
  troubled.HIGH = 0;
  expect(await scraped()).toEqual(["HIGH 0", "LOW 0"]);
  // Both counters exist before the first alert, so that alert rules see an increase.
  expect(await scraped("alerts_total")).toEqual(["HIGH 0", "LOW 0"]);
});
