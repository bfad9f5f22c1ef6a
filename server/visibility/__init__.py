"""What clients will show of a catalog: computed from the catalog and the facts about clients, without a connection.

`entries` is what became of a skill, `served` what a client shows of this server, `native` what it would show of the
same folders by itself, `names` and `meaning` which skills get into each other's way, `repacking` what shorter texts or
another order would change. `overview` puts them together, `objects` is its JSON, `tables` is for people.
"""
