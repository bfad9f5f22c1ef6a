// The identity provider that identity_provider.py starts: `node identity_provider.mjs FOLDER_OF_NODE_MODULES jwt|opaque`.
// It prints its issuer. Its development pages let any user log in and consent.
import http from "node:http";
import { pathToFileURL } from "node:url";

const [folder, format] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${folder}/oidc-provider/lib/index.js`));

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "skillserve",
        client_secret: "a secret of the client",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: ["openid", "offline_access", "skills"],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: () => ({ roles: ["editor"] }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      introspection: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, audience) => ({
          scope: "skills",
          audience,
          accessTokenFormat: format,
          accessTokenTTL: 300,
          jwt: { sign: { alg: "RS256" } },
        }),
        useGrantedResource: () => true,
      },
    },
  });
  server.on("request", provider.callback());
  console.log(`issuer ${issuer}`);
});
