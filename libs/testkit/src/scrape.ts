import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The answer to Prometheus. */
type Scraped = { answerScrape(request: IncomingMessage, response: ServerResponse): void };

/** Returns the metrics that Prometheus would read now. */
export async function scrapeMetrics(telemetry: Scraped): Promise<string> {
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
