import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Telemetry } from "@muster/tracing";

/** What Prometheus would be told now. */
export async function scrape(telemetry: Telemetry): Promise<string> {
  const http = createServer((request, response) => {
    telemetry.answerScrape(request, response);
  }).listen(0, "127.0.0.1");
  await once(http, "listening");
  try {
    const { port } = http.address() as AddressInfo;
    return await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  } finally {
    http.closeAllConnections();
    http.close();
  }
}
