"""What an episode is: the names, the schema and the record that all other rooms share. It imports none of them."""
