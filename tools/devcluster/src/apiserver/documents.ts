import { sendAnswer, answerBytes, answerText, type HttpExchange } from "./answer.ts";
import { buildDiscoveryDocument } from "./discovery.ts";
import { openApiDocument } from "./openapi.ts";
import type { Catalogue } from "./resources.ts";
import { fail, methodNotAllowed, noSuchResource, notAcceptable } from "./status.ts";

const OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/** The requested name is no valid media type, so the answer has another one. */
const OPENAPI_V2_ANSWER = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/** Unknown paths below a group that is always served have their own answers. */
function isBuiltIn(path: string, catalogue: Catalogue): boolean {
  const [, root, group, version] = path.split("/");
  if (root === "api") return true;
  const known = catalogue.all().filter((resource) => resource.schema === undefined);
  return root === "apis" && version !== undefined && known.some((resource) => resource.group === group);
}

/** Discovery and OpenAPI: the server's description of itself. Fails with 404 for other paths. */
export function serveDocument(exchange: HttpExchange, catalogue: Catalogue): void {
  const { request, path } = exchange;
  const isOpenApi = path.startsWith("/openapi/");
  const document = isOpenApi
    ? openApiDocument(path, catalogue)
    : buildDiscoveryDocument(path, request.headers.host ?? "", catalogue);
  if (document === undefined) {
    if (isBuiltIn(path, catalogue)) return fail(noSuchResource());
    answerText(exchange, 404, "404 page not found\n");
    return;
  }
  if (request.method !== "GET") return fail(methodNotAllowed());
  const accept = request.headers.accept ?? "*/*";
  if (path === "/openapi/v2" && accept.startsWith(OPENAPI_V2_PROTOBUF)) {
    // kubectl requests only this form for kinds that the newer documents lack. The empty message means that no more exist.
    answerBytes(exchange, OPENAPI_V2_ANSWER, new Uint8Array());
    return;
  }
  if (!/application\/json|application\/\*|\*\/\*/.test(accept)) return fail(notAcceptable());
  sendAnswer(exchange, 200, document);
}
